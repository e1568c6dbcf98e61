"""
Sends and receives notifications, outside the write path. A notification is a hint that a node has written.

NOTIFY inside a transaction serialises all commits of a database. The writer therefore only requests a notification, and
a thread with its own connection sends one notification for all writes since the previous one.

There is one channel, because up to PostgreSQL 18 the server wakes all listening sessions of the database for any
channel. The payload names the shards, and owners of other shards ignore it. Nodes of older versions send no payload,
and so wake all owners.
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
"""The server's limit of a notification's payload, in bytes."""
_MERGED_S: Final = 1.0
"""Minimum time between two notifications about jobs that are not due soon."""
_FOLLOW_FIRST_S: Final = 0.002
_FOLLOW_MAX_S: Final = 0.05
"""Maximum interval between polls for the end of a caller's transaction. The first intervals are shorter."""


class Notifier:
    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._new: deque[tuple[Collection[int], str]] = deque()
        self._wanted = Event()
        self._is_merging = False
        """True while the thread waits for at most `_MERGED_S`, so that notifications without hurry need not wake it."""
        self._closing = Event()
        self._thread = Thread(target=self._run, name="tickwheel-notifier", daemon=True)
        self._thread.start()

    def notify(self, shards: Collection[int], number: str = "", *, is_soon: bool = True) -> None:
        """
        Queue a notification for the owners of *shards*. If *is_soon* is False, the notification may wait a second.

        If a transaction *number* is given, the notification is sent after that transaction has committed.
        """
        self._new.append((shards, number))
        if is_soon or not self._is_merging:
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
            self._is_merging = False  # before the queue is read: a later entry wakes this thread again
            new = [self._new.popleft() for _ in range(len(self._new))]
            news = {shard for shards, number in new if not number for shard in shards}
            new = [each for each in new if each[1]]
            following += new
            with suppress(Exception):  # hints may be lost: the owner polls from time to time
                if connection is None or connection.closed:
                    connection = self._connect()
                if following:
                    left = _still_open(connection, [number for _, number in following])
                    news.update(*(shards for shards, number in following if number not in left))
                    following = [each for each in following if each[1] in left]
                if news:
                    connection.execute("SELECT pg_notify(%s, %s)", (_CHANNEL, _payload(news)))
            self._is_merging = bool(news) and not following
            pause_s = _next_pause(pause_s, is_new=bool(new)) if following else _MERGED_S if news else None
            if self._closing.is_set():
                break
        if connection is not None:
            connection.close()


def _payload(shards: Collection[int]) -> str:
    text = ",".join(map(str, shards))
    return text if len(text) <= _PAYLOAD_MAX else ""  # an empty payload is for all shards


def _still_open(connection: Connection, numbers: list[str]) -> set[str]:
    rows = connection.execute(SQL["transactions_open"], (numbers,)).fetchall()
    return {number for number, status in rows if status == "in progress"}


def _next_pause(pause_s: float | None, *, is_new: bool) -> float:
    return _FOLLOW_FIRST_S if is_new or pause_s is None else min(pause_s * 1.5, _FOLLOW_MAX_S)


class PostgresSubscription:
    """
    Receives notifications. Its session also guards the owner's leases: other nodes may take them when the session ends.
    """

    def __init__(self, connection: Connection, heard: Callable[[], Collection[int]], owner: str) -> None:
        """
        Listen on *connection*, and guard the leases of *owner*.

        The subscription closes the connection when it ends, or immediately if listening fails. Notifications for shards
        that *heard* does not return are ignored.
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
