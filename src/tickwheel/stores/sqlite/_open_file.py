"""
The open file, with a check that the file's name still leads to it.

If a file is deleted, renamed or replaced by a backup, SQLite continues to write to the open file, which has no name any
more. If this happens to the log (`-wal`) or the log's index (`-shm`), the next process creates new files, and two logs
of one database destroy the database.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import StoreError

__all__ = ["OpenFile", "inode_of"]

_LOG: Final = "-wal"
_PARTS: Final = ("", _LOG, "-shm")

_LOOK_S: Final = 0.25
"""Time for which reads trust the last check of the files' names."""


class OpenFile:
    def __init__(self, path: Path, url: str) -> None:
        self._url = url
        parts = [(part, f"{path}{part}") for part in _PARTS]
        self._known = [(part, name, inode_of(name)) for part, name in parts]
        self.inode = self._known[0][2]
        self.log_name, self.log_inode = self._known[1][1:]
        self.log_size = 0
        """Size of the log in bytes at the last check."""
        self._checked = time.monotonic()

    def check(self) -> None:
        """
        Raise a `StoreError` if one of the files has lost its name. Costs three calls of stat().
        """
        self._checked = -math.inf  # after a failure, the next read checks again
        stat = os.stat
        for part, name, inode in self._known:
            try:
                found = stat(name)
            except OSError:
                is_same = inode is None
            else:
                is_same = (found.st_dev, found.st_ino) == inode
                if part is _LOG:
                    self.log_size = found.st_size
            if not is_same:
                raise self._gone(part)
        self._checked = time.monotonic()

    def look(self) -> None:
        if time.monotonic() - self._checked >= _LOOK_S:  # reads are short and frequent
            self.check()

    def _gone(self, part: str) -> StoreError:
        if part:
            what = f"{self._url}: its {part} was moved, deleted or replaced while it was open"
            return StoreError(what, "stop all processes that use it, start them again, and leave -wal and -shm alone")
        what = f"{self._url} was moved, deleted or replaced while it was open"
        return StoreError(what, "stop all processes that use it, put the file back with its -wal, and start them again")


def inode_of(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)  # noqa: PTH116  an empty name is not a folder here, and a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino
