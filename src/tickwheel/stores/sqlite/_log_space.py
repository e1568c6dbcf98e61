"""
Writes zeros behind the end of the write-ahead log. The next commits overwrite the zeros.

A commit that enlarges the log's file must wait until the file system has stored the new size and blocks, which doubles
the commit's time. The zeros are written only once, because after a checkpoint SQLite overwrites the log from its
beginning. SQLite ignores the zeros, because a page is valid only with the current salt of the log.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

__all__ = ["LogSpace"]

_SMALL: Final = 1 << 16
"""Maximum growth by one commit, in bytes, for which zeros are written."""
_LEAST: Final = 1 << 17
_MOST: Final = 1 << 20
"""Maximum number of zeros written at once. One commit waits until they are on the disk."""


class LogSpace:
    def __init__(self, path: str, inode: tuple[int, int] | None) -> None:
        self._path, self._inode = path, inode
        self.size = 0
        """Size of the file after the last call of `extend`."""

    def extend(self) -> None:
        """
        Write zeros behind the end of the log if a small commit has made it larger.

        Call this within a write transaction: no other process then writes to the log, and the commit syncs the zeros.
        """
        with suppress(OSError), open(self._path, "r+b", buffering=0) as log:  # noqa: PTH123 - a Path costs more
            found = os.fstat(log.fileno())
            grown, self.size = found.st_size - self.size, found.st_size
            if (found.st_dev, found.st_ino) == self._inode and 0 < grown <= _SMALL:
                log.seek(self.size)
                self.size += log.write(bytes(min(max(self.size, _LEAST), _MOST)))
