"""
An advisory file lock, by flock(2), or a locked byte on Windows. The system releases it when the process dies.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

__all__ = ["is_locked", "lock"]

_TRIES: Final = 10
_PAUSE_S: Final = 0.005
# a shared lock never looks like an owner's exclusive lock
_CAN_SHARE: Final = find_spec("fcntl") is not None
"""True if `is_locked` can test a lock by taking a shared lock."""

if _CAN_SHARE:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_locked(fd: int) -> bool:
        """
        Return True if another descriptor holds the lock, or if the state cannot be determined.
        """
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(fd, fcntl.LOCK_UN)
        except OSError:
            return True
        return False

else:
    import msvcrt

    # Other processes cannot read a locked byte, so the byte is far past the end of the text.
    _PLACE: Final = 1 << 30

    def _at_place(fd: int, mode: int) -> None:
        os.lseek(fd, _PLACE, os.SEEK_SET)
        msvcrt.locking(fd, mode, 1)  # type: ignore[attr-defined]

    def _lock(fd: int) -> None:
        try:
            _at_place(fd, msvcrt.LK_NBLCK)  # type: ignore[attr-defined]
        except PermissionError as error:  # another descriptor holds the lock
            raise BlockingIOError(error.errno, error.strerror) from None

    def is_locked(fd: int) -> bool:
        try:
            _at_place(fd, msvcrt.LK_NBLCK)  # type: ignore[attr-defined]
            _at_place(fd, msvcrt.LK_UNLCK)  # type: ignore[attr-defined]
        except OSError:
            return True
        return False


def lock(fd: int) -> None:
    """
    Take the lock for this descriptor. Closing the descriptor releases it.

    Retries for 50 ms, because `is_locked` in another process may hold the lock for an instant. Raises a BlockingIOError
    if another descriptor holds the lock, and a different OSError if the file system does not support locks.
    """
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            _lock(fd)
            return
        if _CAN_SHARE and is_locked(fd):
            break
        time.sleep(_PAUSE_S)
    _lock(fd)
