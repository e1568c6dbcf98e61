"""
Room on the disk that is kept for a bad day: on a full one, what is there can still be cancelled, begun and settled.

To take a job away needs room, too: the log has to hold the change before the file can. So an owner keeps a file of one
mebibyte beside the database, which is deleted when the disk is full. Until it could be made again nothing new is taken.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickwheel.scheduler.errors import StoreFullError
from tickwheel.scheduler.model import Adopt, Set, Write

__all__ = ["Reserve", "is_growing"]

_BYTES: Final = 1 << 20
"""Enough to move the log into the database; then it begins again, in the room that it has."""


class Reserve:
    """
    The file `FILE-reserve`, which others may delete.
    """

    def __init__(self, database: Path, url: str) -> None:
        """
        Keep nothing yet.
        """
        self._path = database.with_name(f"{database.name}-reserve")
        self._url = url
        self.is_spent = False

    def keep(self) -> None:
        """
        Make the file if it is not there and there is room for it.
        """
        if not self.is_spent and self._path.exists():
            return
        with suppress(OSError):
            if _is_filled(self._path):
                self.is_spent = False
            else:
                self._path.unlink()

    def spend(self) -> None:
        """
        Give the room back to the disk.
        """
        self.is_spent = True
        self.let_go()

    def let_go(self) -> None:
        """
        Delete the file.
        """
        with suppress(OSError):
            self._path.unlink()

    def check(self, writes: Sequence[Write]) -> None:
        """
        Raise `StoreFullError` if *writes* would take up the room that was kept for others.
        """
        if self.is_spent and is_growing(writes):
            what = f"{self._url}: the disk is full, and what was kept free is for cancelling"
            raise StoreFullError(what, "free some space; nothing was written", is_transient=True)


def is_growing(writes: Sequence[Write]) -> bool:
    """
    Return whether *writes* bring anything new.
    """
    return any(isinstance(write, Set | Adopt) for write in writes)


def _is_filled(path: Path) -> bool:
    """
    Make the file; return whether there was room for all of it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not hasattr(os, "posix_fallocate"):  # macOS and Windows: what is written is there
            return os.write(fd, bytes(_BYTES)) == _BYTES
        os.posix_fallocate(fd, 0, _BYTES)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
