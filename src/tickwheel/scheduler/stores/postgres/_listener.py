"""
Notifications: a hint that others wrote, sent and heard beside the write path.

NOTIFY inside a transaction makes all commits of a database wait in one line. So the writer only says that there is
something to announce, and a thread with a connection of its own does so, once for all that was written meanwhile.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["Notifier", "PostgresSubscription"]

_CHANNEL: Final = "tickwheel"
_FOLLOW_FIRST_S: Final = 0.002
_FOLLOW_MAX_S: Final = 0.05
"""How often a transaction that somebody else holds open is looked at; longer and longer, as most are short."""


class Notifier:
    """
    A thread that notifies the others.
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

    def notify(self) -> None:
        """
        Let it be announced soon.
        """
        self._has_news = True
        self._wanted.set()

    def notify_after(self, number: str) -> None:
        """
        Let it be announced once the transaction of that *number* has been committed by the session that holds it.
        """
        self._following.append(number)
        self._wanted.set()

    def close(self) -> None:
        """
        Announce what is still to be announced, and end the thread. Twice is allowed.
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


class PostgresSubscription:
    """
    Hears what notifiers announce.
    """

    def __init__(self, connection: Connection) -> None:
        """
        Hear on *connection*, which is closed in the end, or at once if that cannot be.
        """
        self._connection = connection
        try:
            connection.execute(f"LISTEN {_CHANNEL}")
        except BaseException:
            connection.close()
            raise

    def fileno(self) -> int:
        return self._connection.fileno()

    def receive(self) -> bool:
        """
        Take in what has come; return whether a notification was among it.
        """
        self._connection.pgconn.consume_input()
        count = 0
        while self._connection.pgconn.notifies():
            count += 1
        return count > 0

    def close(self) -> None:
        self._connection.close()
