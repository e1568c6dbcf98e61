"""
Notifications: a hint that others wrote, sent and heard beside the write path.

NOTIFY inside a transaction makes all commits of a database wait in one line. So the writer only says that there is
something to announce, and a thread with a connection of its own does so, once for all that was written meanwhile.

There is one channel, and the payload names the shards: an owner of other shards hears it and asks the store nothing. A
channel for each shard would spare the server nothing, which up to PostgreSQL 18 wakes the session of everybody who
listens in the database, to whatever channel; and what an owner listens to would have to follow its leases. An older
node does not read payloads, so that all of them wake it; what it sends itself has none, and wakes everybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL
from tickwheel.threads import Event, Thread

__all__ = ["Notifier", "PostgresSubscription"]

_CHANNEL: Final = "tickwheel"
_PAYLOAD_MAX: Final = 7_999
"""Bytes, by the server's own limit."""
_FOLLOW_FIRST_S: Final = 0.002
_FOLLOW_MAX_S: Final = 0.05
"""Intervals of polling a joined transaction for its end; they grow, as most are short."""


class Notifier:
    """
    A thread that notifies the other nodes.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """
        Start the thread; it opens its connection with *connect*.
        """
        self._connect = connect
        self._new: deque[tuple[Collection[int], str]] = deque()
        self._wanted = Event()
        self._closing = Event()
        self._thread = Thread(target=self._run, name="tickwheel-notifier", daemon=True)
        self._thread.start()

    def notify(self, shards: Collection[int], number: str = "") -> None:
        """
        Queue a notification for the owners of *shards*.

        With a transaction's *number*, it is sent once the session of that transaction has committed.
        """
        self._new.append((shards, number))
        self._wanted.set()

    def close(self) -> None:
        self._closing.set()
        self._wanted.set()
        self._thread.join()

    def _run(self) -> None:
        connection: Connection | None = None
        pause_s: float | None = None
        following: list[tuple[Collection[int], str]] = []
        while True:
            self._wanted.wait(pause_s)
            self._wanted.clear()
            new = [self._new.popleft() for _ in range(len(self._new))]
            news = {shard for shards, number in new if not number for shard in shards}
            new = [each for each in new if each[1]]
            following += new
            with suppress(Exception):  # a hint that is lost is allowed; the owner looks from time to time
                if connection is None or connection.closed:
                    connection = self._connect()
                if following:
                    left = _still_open(connection, [number for _, number in following])
                    news.update(*(shards for shards, number in following if number not in left))
                    following = [each for each in following if each[1] in left]
                if news:
                    connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, _payload(news)))
            pause_s = _next_pause(pause_s, is_new=bool(new)) if following else None
            if self._closing.is_set():
                break
        if connection is not None:
            connection.close()


def _payload(shards: Collection[int]) -> str:
    """
    Return the numbers of *shards*, or "" (all shards) if they are too many.
    """
    text = ",".join(map(str, shards))
    return text if len(text) <= _PAYLOAD_MAX else ""


def _still_open(connection: Connection, numbers: list[str]) -> set[str]:
    rows = connection.execute(SQL["transactions_open"], (numbers,)).fetchall()
    return {number for number, status in rows if status == "in progress"}


def _next_pause(pause_s: float | None, *, is_new: bool) -> float:
    return _FOLLOW_FIRST_S if is_new or pause_s is None else min(pause_s * 1.5, _FOLLOW_MAX_S)


class PostgresSubscription:
    """
    Receives notifications, and guards its owner's leases: once its session ends, other nodes may take them.
    """

    def __init__(self, connection: Connection, heard: Callable[[], Collection[int]], owner: str) -> None:
        """
        Listen on *connection* with leases of *owner*; the connection is closed at the end, or if listening fails.

        Notifications for shards that *heard* does not return are ignored. A shard may become ours a moment later, but
        its new owner first reads everything in it, including writes committed before the notification.
        """
        self._connection, self._heard = connection, heard
        self._news: set[bytes] = set()
        connection.add_notify_handler(lambda notify: self._news.update(notify.payload.encode().split(b",")))
        try:
            connection.execute(SQL["guard_node"], {"owner": owner})
            connection.execute(f"LISTEN {_CHANNEL}")
        except BaseException:
            connection.close()
            raise

    def filenos(self) -> tuple[int]:
        return (self._connection.fileno(),)

    def receive(self) -> bool:
        """
        Read all notifications without waiting; return True if one concerned this owner's shards.
        """
        self._connection.pgconn.consume_input()
        news, self._news = self._news, set()
        while notification := self._connection.pgconn.notifies():
            news.update(notification.extra.split(b","))
        return not news.isdisjoint({b"", *(b"%d" % shard for shard in self._heard())})

    def check(self) -> None:
        self._connection.execute("SELECT 1")

    def close(self) -> None:
        self._connection.close()
