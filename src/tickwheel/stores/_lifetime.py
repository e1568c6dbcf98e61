"""
Checks that a store may be used. It may be used while it is open, in the process that opened it.
"""

from __future__ import annotations

import os

from tickwheel.jobs.errors import StoreError

__all__ = ["Lifetime"]


class Lifetime:
    def __init__(self, url: str) -> None:
        self._url = url
        self._pid = os.getpid()
        self.is_closed = False

    @property
    def is_inherited(self) -> bool:
        return self._pid != os.getpid()

    def check(self) -> None:
        if self.is_closed:
            what = f"{self._url} is closed"
            raise StoreError(what, "open it before use, and make a new one after close")
        if self._pid != os.getpid():
            what = f"{self._url} was opened before a fork"
            raise StoreError(what, "open it again in the child process")
