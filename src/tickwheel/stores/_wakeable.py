"""
Waits for sockets and pipes, until another thread ends the wait.

On Windows, select() accepts only sockets, so a pair of sockets ends the wait. Elsewhere, poll() is used, because it has
no limit on file descriptors.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from tickwheel.threads import Lock

__all__ = ["WakeableWait"]

_Selector: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)
_WAIT_MAX_S: Final = 1e6
"""Maximum wait in seconds, because poll() takes milliseconds as a C int."""


class _Closable(Protocol):
    def close(self) -> None: ...


class WakeableWait:
    """
    A wait that several threads may use at once. `wake` leaves a token, which ends one current or future wait.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting = 0
        self._retired: list[_Closable] = []
        self._is_closed = False
        self._woken, self._waker = socket.socketpair()
        self._woken.settimeout(0)
        self._waker.settimeout(0)

    @contextmanager
    def entered(self) -> Iterator[bool]:
        with self._lock:
            is_open = not self._is_closed
            self._waiting += is_open
        try:
            yield is_open
        finally:
            with self._lock:
                self._waiting -= is_open
                self._tidy()

    def wait(self, timeout_s: float, *others: int) -> set[int]:
        with _Selector() as selector:
            for each in (self._woken.fileno(), *others):
                selector.register(each, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(min(max(timeout_s, 0), _WAIT_MAX_S))}
        if self._woken.fileno() in ready:
            self.forget()
        return ready.intersection(others)

    def wake(self) -> None:
        with suppress(OSError):  # BlockingIOError: there are enough tokens
            self._waker.send(b"\0")

    def recall(self) -> None:
        """
        End a running wait, if any. Unlike `wake`, do not affect a later wait.
        """
        if self._waiting:
            self.wake()

    def forget(self) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(65536)

    def retire(self, *used: _Closable) -> None:
        """
        Close *used* when all threads have left `entered`. Threads that enter later must not use these objects.
        """
        with self._lock:
            self._retired += used
            self._tidy()

    def close(self) -> None:
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._retired += (self._woken, self._waker)
                self._tidy()

    def _tidy(self) -> None:
        # Do not close a descriptor while it is polled: its number would soon belong to another file.
        while self._retired and not self._waiting:
            self._retired.pop().close()
