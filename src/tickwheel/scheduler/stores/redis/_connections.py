"""
Connections to the server: the one place that knows the driver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tickwheel.errors import MissingExtraError
from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.stores._leap import leap
from tickwheel.scheduler.stores._lifetime import Lifetime
from tickwheel.scheduler.stores.redis._errors import store_error
from tickwheel.scheduler.stores.redis._scripts import SCRIPTS

__all__ = ["Connection", "Connections"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")

Connection = Any
"""The driver's; its class depends on the URL."""

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 10.0
"""A server that does not answer within this time counts as unreachable: the owner must not wait past its lease."""


class Connections:
    """
    As many connections as there are threads that ask at once. Safe from any thread.

    A connection that is lost is replaced by the next call; nothing is ever sent twice.
    """

    def __init__(self, location: str, url: str, base: str) -> None:
        """
        Understand *location*, and connect once.

        Args:
            location: What the driver understands: a URL.
            url: What errors show.
            base: Where all keys of the store begin.

        Raises:
            MissingExtraError: If the driver is not installed.
            StoreError: If the server cannot be reached, or refuses.
        """
        try:
            import redis  # noqa: PLC0415 - on use
            from redis.backoff import NoBackoff  # noqa: PLC0415 on use: the extra is optional
            from redis.retry import Retry  # noqa: PLC0415 on use: the extra is optional
        except ImportError as error:
            raise MissingExtraError("redis", "redis") from error
        self._redis = redis
        self._url, self._base = url, base.encode()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self.lifetime = Lifetime(url)
        try:
            self._pool = redis.ConnectionPool.from_url(
                location,
                protocol=2,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=_CONNECT_S,
                socket_timeout=_ANSWER_S,
                client_name="tickwheel",
                **({} if location.startswith("unix") else {"socket_keepalive": True}),
            )
            connection = self._pool.make_connection()
        except (ValueError, TypeError) as error:
            what = f"{url} cannot be understood ({error})"
            raise StoreError(what, "write redis://user:password@host:port/database") from error
        self._idle.append(connection)
        self.call("PING")

    def call(self, *words: bytes | str | int) -> Any:
        """
        Send one command that writes nothing, or may be repeated, and return its reply.

        Raises:
            StoreError: If it fails.
        """
        with self.lent() as connection:
            return self._ask(connection, words)

    def run(self, name: str, *arguments: bytes | str | int, is_write: bool = False) -> Any:
        """
        Run the script *name*, and return its reply; a server that has lost its scripts is given them again.

        Raises:
            StoreError: If it fails; *is_write* where its end is then not known.
        """
        script = SCRIPTS[name]
        words = ("EVALSHA", script.digest, 1, self._base, *arguments)
        with self.lent() as connection:
            try:
                return self._ask(connection, words, is_write=is_write)
            except self._redis.exceptions.NoScriptError:
                self._ask(connection, ("SCRIPT", "LOAD", script.text))
            return self._ask(connection, words, is_write=is_write)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """
        Lend an open connection.
        """
        self.lifetime.check()
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._pool.make_connection()
        try:
            self._connect(connection)
            yield connection
        except self._redis.RedisError as error:
            raise store_error(error, self._url) from error
        finally:
            with self._lock:
                if self.lifetime.is_closed:
                    connection.disconnect()
                else:
                    self._idle.append(connection)

    def connect(self) -> Connection:
        """
        Make a connection for the caller alone, whose errors are the driver's.
        """
        self.lifetime.check()
        connection: Connection = self._pool.make_connection()
        connection.connect()
        return connection

    def notice_server(self) -> None:
        """
        Look whether the server is that of the last time, and let the sequences leap if it is not.
        """
        with self.lent() as connection:
            self._notice_server(connection)

    def close(self) -> None:
        """
        Close all that are idle, and the others when they come back. Twice is allowed.
        """
        with self._lock:
            self.lifetime.is_closed = True
            for connection in self._idle:
                connection.disconnect()
            self._idle.clear()

    def _connect(self, connection: Connection) -> None:
        is_new = connection._sock is None  # noqa: SLF001 - the driver shows it nowhere else
        connection.connect()
        try:
            is_stale = connection.can_read()
        except self._redis.RedisError:
            is_stale = True
        if is_stale:  # the server has gone, or said something that nobody asked for
            connection.disconnect()
            connection.connect()
        if is_new or is_stale:
            self._notice_server(connection)

    def _notice_server(self, connection: Connection) -> None:
        """
        Look whether it is the server of the last time: before anything else is asked of it, on each new connection.
        """
        facts: dict[str, str] = {}
        try:
            for section in ("server", "replication"):
                lines = self._ask(connection, ("INFO", section)).decode("utf-8", "replace").splitlines()
                facts.update((name, value) for name, colon, value in (line.partition(":") for line in lines) if colon)
        except self._redis.exceptions.NoPermissionError:
            return  # the documentation says so to users without the right to ask
        if facts.get("role") != "master":
            return
        script = SCRIPTS["server"]
        identity = f"{facts.get('run_id')}:{facts.get('master_replid')}"
        if self._ask(connection, ("EVAL", script.text, 1, self._base, identity, leap()), is_write=True):
            _LOG.warning("%s: another server answers, or the same one again: generations and epochs leap", self._url)

    def _ask(self, connection: Connection, words: tuple[bytes | str | int, ...], *, is_write: bool = False) -> Any:
        try:
            connection.send_command(*words)
            return connection.read_response()
        except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
            connection.disconnect()
            raise store_error(error, self._url, is_sent=is_write) from error
        except BaseException as error:
            if not isinstance(error, self._redis.ResponseError):
                connection.disconnect()  # an answer that nobody read would be taken for that of the next question
            raise
