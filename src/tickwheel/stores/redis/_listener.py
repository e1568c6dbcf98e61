from __future__ import annotations

from collections.abc import Sequence

from tickwheel.jobs.errors import StoreError
from tickwheel.stores.redis._route import Connection

__all__ = ["RedisSubscription", "Subscriptions"]


class RedisSubscription:
    """
    Listens to one channel. A cluster delivers messages only at the nodes that have the hash slot of the store's keys.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_asked = False

    def filenos(self) -> tuple[int]:
        return (self._connection._sock.fileno(),)  # noqa: SLF001  the driver has no public access

    def receive(self) -> bool:
        has_come = False
        while self._connection.can_read():
            (kind, *_) = self._connection.read_response()
            if kind == b"pong":
                self._is_asked = False
                continue
            if kind == b"sunsubscribe":
                what = "the channel is at another node"
                raise StoreError(what, "subscribe there", is_transient=True)
            has_come = True
        return has_come

    def check(self) -> None:
        if self._is_asked:
            what = "the server does not answer"
            raise StoreError(what, "subscribe again", is_transient=True)
        self._connection.send_command("PING")
        self._is_asked = True

    def close(self) -> None:
        self._connection.disconnect()


class Subscriptions:
    def __init__(self, parts: Sequence[RedisSubscription], heard: set[int]) -> None:
        heard.clear()  # earlier notifications of any partition were missed
        self._parts, self._heard = parts, heard

    def filenos(self) -> list[int]:
        return [number for part in self._parts for number in part.filenos()]

    def receive(self) -> bool:
        self._heard.update(number for number, part in enumerate(self._parts) if part.receive())
        return bool(self._heard)

    def check(self) -> None:
        for part in self._parts:
            part.check()

    def close(self) -> None:
        for part in self._parts:
            part.close()
