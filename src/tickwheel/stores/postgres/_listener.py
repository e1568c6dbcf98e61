"""
Notifications: hints that another node wrote, sent and received outside the write path.

NOTIFY inside a transaction serialises all commits of a database. So the writer only flags an announcement, and a thread
with a separate connection sends it, once for all writes in the meantime.

There is one channel, and the payload names the shards: owners of other shards ignore it. A channel for each shard would
not help the server, which up to PostgreSQL 18 wakes all listening sessions of the database, and would have to follow
the leases. An older node ignores payloads, so all of them wake it; its own notifications have none, and wake all nodes.
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
"""Maximum size in bytes, by the server's limit."""
_FOLLOW_FIRST_S: Final = 0.002
_FOLLOW_MAX_S: Final = 0.05
"""Intervals of polling a joined transaction for its end; they grow, as most are short."""


class Notifier:
    """
    A thread that notifies the other nodes.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
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
    text = ",".join(map(str, shards))
    return text if len(text) <= _PAYLOAD_MAX else ""  # which is for all shards


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
        Listen on *connection*, which is closed at the end, or at once if that fails; guard the leases of *owner*.

        Only notifications for the shards that *heard* returns count. A shard may become ours a moment later, but its
        notified writes were committed before, and a new owner begins by reading the whole shard.
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
        self._connection.pgconn.consume_input()
        news, self._news = self._news, set()
        while notification := self._connection.pgconn.notifies():
            news.update(notification.extra.split(b","))
        return not news.isdisjoint({b"", *(b"%d" % shard for shard in self._heard())})

    def check(self) -> None:
        self._connection.execute("SELECT 1")

    def close(self) -> None:
        self._connection.close()
