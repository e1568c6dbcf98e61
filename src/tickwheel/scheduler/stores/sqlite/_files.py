"""
The two files beside a database: the lock that its owner holds, and the bell that others ring.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import socket
import stat
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickwheel.scheduler.errors import StoreError, StoreInUseError
from tickwheel.scheduler.stores._wake_pipe import wake_pipe
from tickwheel.scheduler.stores.sqlite._open_file import inode_of

__all__ = ["Bell", "OwnerLock", "lock_error", "ring"]

_POLL_MAX_S: Final = 1e6
"""poll() counts milliseconds in a C int."""


class OwnerLock:
    """
    The right to fire a file's jobs: an flock(2) on `FILE-lock`, which the kernel gives back when the process dies.

    The file itself stays: to remove it would let two processes lock two files of one name.
    """

    def __init__(self, database: Path) -> None:
        """
        Lock nothing yet.
        """
        self._path = _beside(database, "-lock")
        self._database = database
        self._fd: int | None = None
        _LOCKS.add(self)

    @property
    def is_held(self) -> bool:
        """
        Whether this object holds the lock, on the file that has the name now.
        """
        return self._fd is not None and _is_same(self._fd, self._path)

    def is_taken(self) -> bool:
        """
        Return whether anybody owns the file; also where that cannot be told.
        """
        if self._fd is not None:
            return True
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def take(self, owner: str) -> None:
        """
        Lock the file for *owner*, at once or not at all.

        Raises:
            StoreInUseError: If another process, or another store of this one, holds it.
            StoreError: If the file system does not lock.
        """
        mode = stat.S_IMODE(self._database.stat().st_mode)
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as error:
            raise lock_error(self._path, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 200, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            what = f"{self._database} is owned by {holder}"
            raise StoreInUseError(what, "stop it, or take another file", is_transient=True) from None
        except OSError as error:
            os.close(fd)
            raise lock_error(self._path, error) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{owner}, process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._fd = fd

    def give_back(self) -> None:
        """
        Unlock the file. Twice is allowed.
        """
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):
                os.ftruncate(fd, 0)
            os.close(fd)


def lock_error(path: Path, error: OSError) -> StoreError:
    """
    Return the `StoreError` for a lock that could not even be tried.
    """
    if isinstance(error, PermissionError):
        return StoreError(f"{path}: access is denied", "give this user the right to write the database's folder")
    what = f"{path} cannot be locked ({error.strerror})"
    return StoreError(what, "put the file on a local disk; network file systems may not lock")


class Bell:
    """
    A FIFO beside the database, `FILE-wake`, into which other processes write one byte when they have written.

    A ring that nobody heard is lost, and that is allowed: it is a hint.
    """

    def __init__(self, database: Path) -> None:
        """
        Listen to nobody but `wake` yet.
        """
        self._path = _beside(database, "-wake")
        self._database = database
        self._ears: int | None = None
        self._woken, self._waker = wake_pipe()
        self._lock = threading.Lock()
        self._waiting = 0
        self._old: list[int] = []
        self._is_closed = False

    def hang(self) -> bool:
        """
        Listen to others; return whether the file system lets us.
        """
        with suppress(OSError):
            with suppress(FileNotFoundError):
                if self._path.is_fifo():  # of an owner who died or lost the lock, and may take it down later
                    self._path.unlink()
            with suppress(FileExistsError):
                os.mkfifo(self._path)
                self._path.chmod(stat.S_IMODE(self._database.stat().st_mode))
            # Opened for writing too: a reader alone would see an end of file whenever the last writer leaves.
            fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                self._ears = fd
            else:
                os.close(fd)
        return self._ears is not None

    def hang_again(self) -> bool:
        """
        Listen to others where they ring now, if that is not where they rang before; return whether it was not.
        """
        if self._ears is None or self._is_named():
            return False
        self.take_down()
        return self.hang()

    def wait(self, timeout_s: float) -> bool:
        """
        Block until somebody rings, `wake`, `close` or the timeout; return whether somebody rang.
        """
        with self._lock:
            if self._is_closed:
                return False
            self._waiting += 1
            ears = self._ears
        try:
            return self._listen(ears, timeout_s)
        finally:
            with self._lock:
                self._waiting -= 1
                self._tidy()

    def wake(self) -> None:
        """
        End a `wait`, this one or the next.
        """
        with self._lock, suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._waker, b"\0")

    def take_down(self) -> None:
        """
        Listen to nobody any more; the next owner's bell stays.
        """
        with self._lock:
            if self._ears is not None:
                with suppress(OSError):
                    if self._is_named():
                        self._path.unlink()
                self._old.append(self._ears)
                self._ears = None
                self._tidy()

    def close(self) -> None:
        """
        End a `wait`, and give the file descriptors back when the last one has left. Twice is allowed.
        """
        self.take_down()
        self.wake()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._old += [self._woken, self._waker]
                self._tidy()

    def _is_named(self) -> bool:
        return self._ears is not None and _is_same(self._ears, self._path)

    def _listen(self, ears: int | None, timeout_s: float) -> bool:
        poll = select.poll()
        for fd in (self._woken, ears):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(math.ceil(min(max(timeout_s, 0), _POLL_MAX_S) * 1000))}
        for fd in ready:
            with suppress(BlockingIOError):
                os.read(fd, 65536)
        return ears in ready

    def _tidy(self) -> None:
        # A descriptor that somebody polls may not be closed: its number would soon be another file's.
        while self._old and not self._waiting:
            os.close(self._old.pop())


def ring(database: Path) -> None:
    """
    Tell the owner of *database*, if there is one, that something was written.
    """
    with suppress(OSError):  # ENXIO: nobody listens; EAGAIN: it has rung already
        fd = os.open(_beside(database, "-wake"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, b"\0")
        finally:
            os.close(fd)


def _is_same(fd: int, path: Path) -> bool:
    held = os.fstat(fd)
    return inode_of(str(path)) == (held.st_dev, held.st_ino)


def _beside(database: Path, suffix: str) -> Path:
    return database.with_name(database.name + suffix)


_LOCKS: Final[weakref.WeakSet[OwnerLock]] = weakref.WeakSet()


def _forget_locks() -> None:
    # A forked child shares the lock with its parent and would keep it when the parent dies.
    for lock in _LOCKS:
        if lock._fd is not None:  # noqa: SLF001 - the child closes its copy, which does not unlock the parent's
            os.close(lock._fd)  # noqa: SLF001 of its own class
            lock._fd = None  # noqa: SLF001 of its own class


os.register_at_fork(after_in_child=_forget_locks)
