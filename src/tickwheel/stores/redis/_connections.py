"""
Connections to the server, made with the driver redis-py.
"""

from __future__ import annotations

import _thread
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from tickwheel.errors import MissingExtraError
from tickwheel.jobs.errors import StoreError
from tickwheel.loops import new_pool
from tickwheel.stores._lifetime import Lifetime
from tickwheel.stores.redis._errors import store_error
from tickwheel.stores.redis._partition import WHOLE, Partition
from tickwheel.stores.redis._route import Connection, route_of
from tickwheel.stores.redis._scripts import SCRIPTS
from tickwheel.threads import Lock, is_patched, original

__all__ = ["Connection", "Connections"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")

_REDIRECTIONS: Final = 2
_CALL_S: Final = 2.0
_THREADS: Final = 4
"""Number of threads under gevent, which is also the number of concurrent connections."""
_REPLICAS: Final = 0.8
"""Fraction of a call's time limit for which a write waits for replicas. After that, its outcome counts as unknown."""
_CONFIRMED: Final = frozenset({"apply", "apply_freeing", "scope"})
"""The scripts whose writes are answered only after replicas have received them."""


class _MovedError(StoreError): ...


class Connections:
    """
    A pool with a connection for each concurrent thread. Thread-safe.

    The next call replaces a lost connection. A call is sent again only if a node of a cluster has refused it.
    """

    def __init__(
        self,
        location: str,
        url: str,
        base: str,
        replicas: int = 0,
        partition: Partition = WHOLE,
        *,
        call_s: float = _CALL_S,
    ) -> None:
        """
        Parse *location*, and connect once.

        *base* is the common prefix of all keys. *replicas* is the number of replicas that must receive a write before
        it is answered. *call_s* is the time limit of a call, in seconds.
        """
        try:
            import redis  # noqa: PLC0415 on use: the extra is optional
        except ImportError as error:
            raise MissingExtraError("redis", "redis") from error
        self._redis = redis
        self._url, self._base = url, base.encode()
        self.partition = partition
        self._lock = Lock()
        self._idle: list[Connection] = []
        self._here: Any = original(_thread, "_local")()
        """Idle connections of the thread, as `idle`: a gevent socket works only in the thread that opened it."""
        self._pool = new_pool(_THREADS, "tickwheel-redis")
        self.lifetime = Lifetime(url)
        self._route = route_of(redis, location, url, base, call_s)
        self._call_s = call_s
        self._replicas, self._replicas_ms = replicas, int(call_s * _REPLICAS * 1000)
        self.call("PING")

    def call(self, *words: bytes | str | int) -> Any:
        return self._redirected(lambda connection: self._ask(connection, words))

    def run(self, name: str, *arguments: bytes | str | int, is_write: bool = False, calls: int = 1) -> Any:
        """
        Run the script *name*, and return its reply. The script is loaded again if the server has lost it.

        The time limit is *calls* times the limit of one call. If a write (*is_write*) fails, its outcome is unknown.
        """
        script = SCRIPTS[name]
        words = ("EVALSHA", script.digest, 1, self._base, *arguments)

        def ask(connection: Connection) -> Any:
            try:
                reply = self._ask(connection, words, is_write=is_write, calls=calls)
            except self._redis.exceptions.NoScriptError:
                self._ask(connection, ("SCRIPT", "LOAD", script.text))
                reply = self._ask(connection, words, is_write=is_write, calls=calls)
            if self._replicas and name in _CONFIRMED:
                self._confirm(connection)
            return reply

        return self._redirected(ask)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        self.lifetime.check()
        idle = self._idle_here()
        with self._lock:
            connection = idle.pop() if idle else None
        try:
            if connection is None or not self._route.leads_to(connection):
                if connection is not None:
                    connection.disconnect()
                connection = self._route.connection()
            self._connect(connection)
            yield connection
        except self._redis.exceptions.MovedError as error:
            if not self._route.follow(error.host, error.port):
                raise store_error(error, self._url) from error
            what = f"{self._url}: the cluster has moved this store ({error})"
            raise _MovedError(what, "try again", is_transient=True) from error
        except self._redis.RedisError as error:
            self._route.lose()
            raise store_error(error, self._url) from error
        except StoreError:
            self._route.lose()
            raise
        finally:
            with self._lock:
                if connection is not None and not self.lifetime.is_closed:
                    idle.append(connection)
                elif connection is not None:
                    connection.disconnect()

    def subscribe(self, channel: str) -> Connection:
        self.lifetime.check()
        connection = self._route.connection()
        try:
            connection.connect()
            connection.send_command("SSUBSCRIBE", channel)
            connection.read_response()
        except BaseException as error:
            connection.disconnect()
            if isinstance(error, self._redis.exceptions.MovedError):
                self._route.follow(error.host, error.port)
            else:
                self._route.lose()
            raise
        return connection

    def notice_server(self) -> None:
        self._redirected(self._notice_server)

    def close(self) -> None:
        with self._lock:
            self.lifetime.is_closed = True
            for connection in self._idle:
                connection.disconnect()
            self._idle.clear()
        self._pool.shutdown(wait=False)

    def _redirected(self, ask: Callable[[Connection], Any]) -> Any:
        # A node that redirects a call has not executed it, so it is safe to repeat the call. With gevent, a thread of a
        # small pool runs *ask*, and other greenlets run in the meantime.
        if is_patched() and not hasattr(self._here, "idle"):
            self.lifetime.check()
            return self._pool.submit(self._redirected_here, ask).result()
        return self._redirected_here(ask)

    def _idle_here(self) -> list[Connection]:
        if not is_patched():
            return self._idle
        if not hasattr(self._here, "idle"):
            self._here.idle = []
        return self._here.idle  # type: ignore[no-any-return]

    def _redirected_here(self, ask: Callable[[Connection], Any]) -> Any:
        for _ in range(_REDIRECTIONS):
            with suppress(_MovedError), self.lent() as connection:
                return ask(connection)
        with self.lent() as connection:
            return ask(connection)

    def _confirm(self, connection: Connection) -> None:
        count = self._ask(connection, ("WAIT", self._replicas, self._replicas_ms), is_write=True)
        if count < self._replicas:
            limit_s = self._replicas_ms / 1000
            what = f"{self._url}: {count} of {self._replicas} replicas have the write within {limit_s:g} s"
            raise StoreError(what, "see to the replicas, or lower replicas=", is_transient=True, is_unknown=True)

    def _connect(self, connection: Connection) -> None:
        is_new = connection._sock is None  # noqa: SLF001  the driver has no public access
        connection.connect()
        try:
            is_stale = connection.can_read()
        except self._redis.RedisError:
            is_stale = True
        if is_stale:  # the server is gone, or sent something unrequested
            connection.disconnect()
            connection.connect()
        if is_new or is_stale:
            self._notice_server(connection)

    def _notice_server(self, connection: Connection) -> None:
        facts: dict[str, str] = {}
        try:
            for text in self._ask_together(connection, ("INFO", "server"), ("INFO", "replication")):
                lines = text.decode("utf-8", "replace").splitlines()
                facts.update((name, value) for name, colon, value in (line.partition(":") for line in lines) if colon)
        except self._redis.exceptions.NoPermissionError:
            return  # this user has no right to ask; the documentation warns of this
        if facts.get("role") != "master":
            if self._route.is_searched:
                what = f"{self._url}: a replica answers at the address of the primary"
                raise StoreError(what, "try again when another has taken over", is_transient=True)
            return
        script = SCRIPTS["server"]
        identity = f"{facts.get('run_id')}:{facts.get('master_replid')}"
        if self._ask(connection, ("EVAL", script.text, 1, self._base, identity, self.partition.leap()), is_write=True):
            _LOG.warning("%s: another server answers, or the same one again: generations and epochs leap", self._url)

    def _ask(
        self, connection: Connection, words: tuple[bytes | str | int, ...], *, is_write: bool = False, calls: int = 1
    ) -> Any:
        return self._ask_together(connection, words, is_write=is_write, calls=calls)[0]

    def _ask_together(
        self, connection: Connection, *questions: tuple[bytes | str | int, ...], is_write: bool = False, calls: int = 1
    ) -> list[Any]:
        replies: list[Any] = []
        refused: Exception | None = None
        try:
            if (end := connection._sock) is not None:  # noqa: SLF001  the driver has no public access
                end.settimeout(self._call_s * calls)
            for words in questions:
                connection.send_command(*words)
            for _ in questions:
                try:
                    replies.append(connection.read_response())
                except self._redis.ResponseError as error:
                    refused = refused or error
        except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
            connection.disconnect()
            raise store_error(error, self._url, is_sent=is_write) from error
        except BaseException:
            connection.disconnect()  # otherwise the next call would read an answer of this one
            raise
        if refused is not None:
            raise refused
        return replies
