"""
Reserved disk space, so that existing jobs can still be cancelled, started and finished on a full disk.

Deleting a job also needs room, because the change goes to the log before it reaches the database. An owner therefore
keeps a reserve file, as large as the pages that the next checkpoint will add to the database. When the disk is full,
the reserve file is deleted, and new jobs are refused until the file can be created again.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import StoreError, StoreFullError
from tickwheel.jobs.model import Adopt, Begin, Cancel, Keep, Move, Replay, Resume, Set, SetPause, Settle, Write
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.stores.sqlite._side_file import make_side_file
from tickwheel.threads import Lock

__all__ = ["JOB_BYTES", "Reserve", "growth_of", "is_growing", "moved_size"]

_STEP: Final = 1 << 20
"""The size of the reserve file is a multiple of this, in bytes."""

_SPARE: Final = 1 << 18
"""Bytes added to the size of the reserve for the overhead of the file system."""

JOB_BYTES: Final = 8_192
"""Bytes that a job can take on half-empty pages, in addition to twice the size of its payload."""

_FULL: Final = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}

_GROWING: Final = (Set, Adopt)
_SHRINKING: Final = frozenset((Begin, Settle))
"""The most frequent kinds of writes that add no data."""


class Reserve:
    """
    The file `FILE-reserve`, which occupies disk space. Any process may delete it at any time. Thread-safe.
    """

    def __init__(self, database: Path, url: str) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}-reserve")
        self._url = url
        self._lock = Lock()
        self._bytes = 0
        self._room = 0
        """Number of bytes that may be written before `cover` checks the disk again."""
        self.is_spent = False

    def keep(self, moved: int) -> None:
        """
        Create or enlarge the file if the disk has room. The next checkpoint will make the database *moved* bytes large.
        """
        with self._lock, suppress(OSError):
            wanted = _rounded(self._added(moved))
            if self.is_spent or self._bytes < wanted or not self._path.exists():
                self._resize(max(wanted, self._bytes))
                self.is_spent = False

    def cover(self, more: int, connection: sqlite3.Connection) -> None:
        """
        Enlarge the file for a commit that adds at most *more* bytes (see `growth_of`).

        The needed size is computed again only if the commits since the last time may have exceeded it. Raises a
        `StoreFullError` on a full disk.
        """
        with self._lock:
            self._room -= more
            if not more or self._room >= 0:  # removals are never refused
                return
            added = self._added(moved_size(connection))
            wanted = _rounded(added)
            if not wanted <= self._bytes < 4 * wanted:
                try:
                    self._resize(wanted)
                except OSError as error:
                    raise self._refused(error) from error
            self._room = self._bytes - added

    def spend(self) -> None:
        self.is_spent = True
        self.let_go()

    def let_go(self) -> None:
        with self._lock, suppress(OSError):
            self._bytes = 0
            self._path.unlink()

    def check(self, writes: Sequence[Write]) -> None:
        if self.is_spent and is_growing(writes):
            what = f"{self._url}: the disk is full, and what was kept free is for cancelling"
            raise StoreFullError(what, "free some space; nothing was written", is_transient=True)

    def fitting(self, writes: Sequence[Write]) -> Sequence[Write]:
        if not self.is_spent:
            return writes
        return [_bare(each) for each in writes]

    def _added(self, moved: int) -> int:
        return max(0, moved - self._database.stat().st_size) + _SPARE

    def _open(self) -> int:
        try:
            return make_side_file(self._path, self._database)
        except (PermissionError, StoreError):  # left by a killed owner, or a link: it reserves nothing
            self._path.unlink()
            return make_side_file(self._path, self._database)

    def _refused(self, error: OSError) -> StoreError:
        if error.errno in _FULL:
            what = f"{self._url}: the disk is full ({error.strerror})"
            return StoreFullError(what, "free some space; nothing was written", is_transient=True)
        what = f"{self._path} cannot be made ({error.strerror or error})"
        return StoreError(what, "remove it, and give this user the right to write its folder; nothing was written")

    def _resize(self, size: int) -> None:
        fd = self._open()
        try:
            if os.fstat(fd).st_size > size:
                os.ftruncate(fd, size)
            _fill(fd, size)
            self._bytes = size
        except OSError:
            os.ftruncate(fd, self._bytes)  # keeps the earlier content
            raise
        finally:
            os.close(fd)


def is_growing(writes: Sequence[Write]) -> bool:
    return any(isinstance(write, _GROWING) or (isinstance(write, Keep) and bool(write.data)) for write in writes)


def growth_of(writes: Sequence[Write]) -> int:
    if len(writes) == 1 and isinstance(write := writes[0], _GROWING):
        return JOB_BYTES + 2 * len(write.job.payload)
    kinds = set(map(type, writes))
    if _SHRINKING.issuperset(kinds):
        return 0
    sizes = [len(each.job.payload) for each in writes if isinstance(each, _GROWING)]
    if Keep in kinds:
        sizes += [len(each.data or b"") for each in writes if isinstance(each, Keep)]
    return JOB_BYTES * len(sizes) + 2 * sum(sizes)


def _bare(write: Write) -> Write:
    if isinstance(write, Settle):
        return replace(write, record=None)
    if isinstance(write, (Move, Cancel, SetPause, Resume, Replay)):
        return replace(write, once=None)
    return write


def moved_size(connection: sqlite3.Connection) -> int:
    size: int = connection.execute(SQL["size"]).fetchone()[0]
    return size


def _rounded(size: int) -> int:
    return -(-size // _STEP) * _STEP


def _fill(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    elif os.write(fd, bytes(size)) < size:  # macOS and Windows: writing allocates the blocks
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
