"""
Waiting for what others write, for stores whose server can tell of it. A hint: the truth is in the notes.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from tickwheel.scheduler.stores._wake_pipe import wake_pipe

__all__ = ["Ear", "Listener"]

_POLL_MAX_S: Final = 1e6
_RETRY_S: Final = 1.0


class Ear(Protocol):
    """
    A connection on which a server tells what others wrote. Whatever its methods raise: it is closed, and made anew.
    """

    def fileno(self) -> int:
        """
        Return the descriptor that can be read when something has come.
        """

    def hear(self) -> bool:
        """
        Take in what has come, without waiting; return whether others told something.
        """

    def close(self) -> None:
        """
        Give the connection back.
        """


class Listener:
    """
    Hears what others tell, from `listen` to `deafen`, and can be woken: the drivers' own waits cannot.
    """

    def __init__(self, connect: Callable[[], Ear]) -> None:
        """
        Hear nothing yet; *connect* makes what is heard with, and raises what it likes.
        """
        self._connect = connect
        self._ear: Ear | None = None
        self._is_listening = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._woken, self._waker = wake_pipe()

    def listen(self) -> None:
        """
        Hear from now on, or as soon as there is a connection.
        """
        self._is_listening = True
        self.wake()
        with self._lock:
            with suppress(Exception):  # the next wait tries again
                self._reconnect()
            self._drain()

    def deafen(self) -> None:
        """
        Hear nothing any more.
        """
        self._is_listening = False
        self.wake()
        with self._lock:
            self._drop()
            self._drain()

    def wait(self, timeout_s: float) -> bool:
        """
        Block until others told something, `wake`, `close` or the timeout; return whether they may have.
        """
        with self._lock:
            if self._is_closed:
                return False
            if not self._is_listening:
                return self._poll(None, timeout_s)
            if self._ear is None:
                with suppress(Exception):
                    self._reconnect()
                    return True  # what was told in between was not heard
                return not self._poll(None, min(timeout_s, _RETRY_S))
            try:
                return self._poll(self._ear.fileno(), timeout_s) and self._ear.hear()
            except Exception:  # noqa: BLE001 - whatever it was: the connection is made anew
                self._drop()
                return True

    def wake(self) -> None:
        """
        End a `wait`, this one or the next.
        """
        with suppress(BlockingIOError, OSError):
            os.write(self._waker, b"\0")

    def close(self) -> None:
        """
        End a `wait`, and give the descriptors back. Twice is allowed.
        """
        self._is_listening = False
        self.wake()
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._drop()
                os.close(self._woken)
                os.close(self._waker)

    def _poll(self, fd: int | None, timeout_s: float) -> bool:
        poll = select.poll()
        for each in (self._woken, fd):
            if each is not None:
                poll.register(each, select.POLLIN)
        ready = [each for each, _ in poll.poll(round(min(max(timeout_s, 0), _POLL_MAX_S) * 1000))]
        if self._woken in ready:
            self._drain()
        return fd is not None and fd in ready

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 65536)

    def _reconnect(self) -> None:
        self._drop()
        self._ear = self._connect()

    def _drop(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()
