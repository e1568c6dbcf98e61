from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.stores.sqlite._file_lock import is_locked, lock
from tickwheel.stores.sqlite._open_file import inode_of
from tickwheel.stores.sqlite._side_file import make_side_file, open_side_file

__all__ = ["OwnerLock", "is_same", "lock_error"]


class OwnerLock:
    """
    The right to fire a file's jobs: a lock on `FILE-lock`, which the system releases when the process dies.

    The lock file is never removed. If it were, two processes could lock two different files of that name.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}-lock")
        self._database = database
        self._fd: int | None = None
        _LOCKS.add(self)

    @property
    def is_held(self) -> bool:
        return self._fd is not None and is_same(self._fd, self._path)

    def is_taken(self) -> bool:
        if self._fd is not None:
            return True
        try:
            fd = open_side_file(self._path)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            return is_locked(fd)
        finally:
            os.close(fd)

    def take(self, owner: str) -> None:
        try:
            fd = make_side_file(self._path, self._database)
        except StoreError:
            raise
        except OSError as error:
            raise lock_error(self._path, error) from error
        try:
            lock(fd)
            self._fd = fd
        except BlockingIOError:
            os.lseek(fd, 0, os.SEEK_SET)
            holder = os.read(fd, 200).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            what = f"{self._database} is owned by {holder}"
            raise StoreInUseError(what, "stop it, or take another file", is_transient=True) from None
        except OSError as error:
            os.close(fd)
            raise lock_error(self._path, error) from error
        except BaseException:
            os.close(fd)
            raise
        with suppress(OSError):  # the text is only for people; a full disk may have no room for it
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, f"{owner}, process {os.getpid()} on {socket.gethostname()}\n".encode())

    def give_back(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.ftruncate(self._fd, 0)
            fd, self._fd = self._fd, None
            os.close(fd)


def lock_error(path: Path, error: OSError) -> StoreError:
    if isinstance(error, PermissionError):
        return StoreError(f"{path}: access is denied", f"give this user the right to write {path.name} and its folder")
    what = f"{path} cannot be locked ({error.strerror})"
    return StoreError(what, "put the file on a local disk; network file systems may not lock")


def is_same(fd: int, path: Path) -> bool:
    held = os.fstat(fd)
    return inode_of(str(path)) == (held.st_dev, held.st_ino)


_LOCKS: Final[weakref.WeakSet[OwnerLock]] = weakref.WeakSet()


def _forget_locks() -> None:
    # A forked child shares the parent's lock, and would hold it after the parent dies.
    for each in _LOCKS:
        if each._fd is not None:  # noqa: SLF001  closing the child's copy does not release the parent's lock
            os.close(each._fd)  # noqa: SLF001 of its own class
            each._fd = None  # noqa: SLF001 of its own class


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
