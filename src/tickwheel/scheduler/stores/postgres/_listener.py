"""
Notifications: a hint that others wrote, sent and heard beside the write path.

NOTIFY inside a transaction makes all commits of a database wait in one line. So the writer only says that there is
something to tell, and a thread with a connection of its own tells it, once for all that was written meanwhile.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["Listener", "Notifier"]

_CHANNEL: Final = "tickwheel"
_POLL_MAX_S: Final = 1e6
_RETRY_S: Final = 1.0
_FOLLOW_FIRST_S: Final = 0.002
_FOLLOW_MAX_S: Final = 0.05
"""How often a transaction that somebody else holds open is looked at; longer and longer, as most are short."""


class Notifier:
    """
    A thread that tells the others.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """
        Start it; it makes its connection with *connect*.
        """
        self._connect = connect
        self._following: deque[str] = deque()
        self._has_news = False
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tickwheel-notifier", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """
        Let it be told soon.
        """
        self._has_news = True
        self._wanted.set()

    def tell_after(self, number: str) -> None:
        """
        Let it be told once the transaction of that *number* has been committed, by whoever holds it.
        """
        self._following.append(number)
        self._wanted.set()

    def close(self) -> None:
        """
        Tell what is still to be told, and end the thread. Twice is allowed.
        """
        self._closing.set()
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        connection: Connection | None = None
        pause_s: float | None = None
        following: list[str] = []
        while True:
            self._wanted.wait(pause_s)
            self._wanted.clear()
            has_news, self._has_news = self._has_news, False
            new = [self._following.popleft() for _ in range(len(self._following))]
            following += new
            with suppress(Exception):  # a hint that is lost is allowed; the owner looks from time to time
                if connection is None or connection.closed:
                    connection = self._connect()
                if following:
                    left = _still_open(connection, following)
                    has_news |= len(left) < len(following)
                    following = left
                if has_news:
                    connection.execute(f"NOTIFY {_CHANNEL}")
            pause_s = _next_pause(pause_s, is_new=bool(new)) if following else None
            if self._closing.is_set():
                break
        if connection is not None:
            connection.close()


def _still_open(connection: Connection, numbers: list[str]) -> list[str]:
    rows = connection.execute(SQL["transactions_open"], (numbers,)).fetchall()
    return [number for number, status in rows if status == "in progress"]


def _next_pause(pause_s: float | None, *, is_new: bool) -> float:
    return _FOLLOW_FIRST_S if is_new or pause_s is None else min(pause_s * 1.5, _FOLLOW_MAX_S)


class Listener:
    """
    Hears what others tell, from `listen` to `deafen`, and can be woken.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """
        Hear nothing yet.
        """
        self._connect = connect
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
            if self._connection is None or self._connection.closed:
                with suppress(StoreError):
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
            if not self._poll(connection.fileno(), timeout_s):
                return False
            connection.pgconn.consume_input()
            told = 0
            while connection.pgconn.notifies():
                told += 1
        except Exception:  # noqa: BLE001 - whatever it was: the connection is made anew
            self._drop()
            return True
        return told > 0

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
        self._connection = self._connect()
        self._connection.execute(f"LISTEN {_CHANNEL}")

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
