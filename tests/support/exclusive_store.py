"""
A store that only one process may open: SQLite with a lock that is held while the store is open.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

from tickwheel.stores.sqlite import SqliteStore

__all__ = ["ExclusiveStore"]


class ExclusiveStore(SqliteStore):
    """
    A SQLite store that cannot be opened a second time until it is closed, or until its process has ended.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._only: Any = None

    def open(self) -> None:
        """
        Take the lock, and open the store.
        """
        self._only = Path(f"{self.path}.lock").open("wb")  # noqa: SIM115  it is open as long as the store
        fcntl.flock(self._only, fcntl.LOCK_EX | fcntl.LOCK_NB)
        super().open()

    def close(self) -> None:
        """
        Close the store, and release the lock.
        """
        super().close()
        if self._only is not None:
            self._only.close()
