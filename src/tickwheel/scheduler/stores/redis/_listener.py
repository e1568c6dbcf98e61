"""
Notifications: a hint that others wrote. The truth is in the notes, which the owner also looks at from time to time.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.scheduler.stores.redis._connections import Connection

__all__ = ["Listener"]

_POLL_MAX_S: Final = 1e6
_RETRY_S: Final = 1.0


class Listener:
    """
    Hears what the script `apply` tells, from `listen` to `deafen`, and can be woken.
    """

    def __init__(self, connect: Callable[[], Connection], channel: str) -> None:
        """
        Hear nothing yet.
        """
        self._connect, self._channel = connect, channel
        self._connection: Connection | None = None
        self._is_listening = False
        self._is_closed = False
        self._lock = threading.Lock()
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def listen(self) -> None:
        """
        Hear from now on.
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
            if self._connection is None:
                with suppress(Exception):
                    self._reconnect()
                    return True  # what was told in between was not heard
                return not self._poll(None, min(timeout_s, _RETRY_S))
            return self._hear(self._connection, timeout_s)

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

    def _hear(self, connection: Connection, timeout_s: float) -> bool:
        try:
            # The driver's own wait cannot be woken from another thread.
            if not self._poll(connection._sock.fileno(), timeout_s):  # noqa: SLF001
                return False
            while connection.can_read():
                connection.read_response()
        except Exception:  # noqa: BLE001 - whatever it was: the connection is made anew
            self._drop()
        return True

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
        connection = self._connect()
        try:
            connection.send_command("SUBSCRIBE", self._channel)
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection = connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
