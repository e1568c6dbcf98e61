"""
The Redis target: an entry in the stream that the job names as its handler.

    field             value
    payload           the JSON bytes
    message-id        the same for all attempts
    tickwheel-...     see `_headers`

If a message was added but not confirmed, it is sent again. The server recognises the repeat for some time (`once_s`)
and does not add it. Messages are sent over one connection, without waiting for answers to earlier messages.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._broker_errors import NO_MEMORY
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, number, seconds, whole
from tickwheel.targets.contract import Firing
from tickwheel.typing import Duration

__all__ = ["RedisStreamTarget"]

_BUSY: Final = ("BUSY", "MISCONF", "NOREPLICAS")
_CANNOT_WRITE: Final = (
    "ReadOnlyError",
    "ClusterDownError",
    "MasterDownError",
    "TryAgainError",
    "BusyLoadingError",
)
"""Error prefixes and classes of a server that temporarily cannot write."""
_BROKEN: Final = "the connection broke"
_SILENCE_MAX_S: Final = 30.0
"""Seconds without an answer after which a connection is closed."""


class RedisStreamTarget(Linked):
    """
    Adds to streams of one Redis, or of a compatible server with Lua.

    Args:
        url: Such as "redis://localhost:6379/0".
        length_max: Approximate maximum length of a stream (`MAXLEN ~`); None for no limit.
        once_s: Seconds for which a repeat is recognized and not added again; rounded up.
        timeout_s: Time limit of connecting, and of an attempt's wait for the answer.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        *,
        length_max: int | None = None,
        once_s: Duration = 3_600,
        timeout_s: Duration = 10.0,
        rate: float | None = None,
    ) -> None:
        self._destination = Destination.of_url(url, REDIS_SCHEMES, "redis://localhost:6379/0")
        most = checks.NUMBER_MAX
        self._length_max = 0 if length_max is None else checks.check_count("length_max", length_max, most)
        self._once_s = math.ceil(checks.span_ms("once_s", once_s) / 1000)
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._rate = checks.limit_rate(rate)
        self._add_once = Path(__file__).with_name("add_once.lua").read_bytes()
        self._link: Link[_Pipe] = Link(
            self._destination.shown, self._timeout_s, self._connect, _Pipe.close, lambda pipe: pipe.is_open
        )

    def __repr__(self) -> str:
        return f"RedisStreamTarget({self._destination.shown!r})"

    def check(self, handler: str) -> None:
        if not handler or not handler.isprintable():
            raise InvalidJobError("handler", handler, "name the stream that the message goes to, such as 'orders'")

    def require(self) -> None:
        library("redis.asyncio", "redis")

    async def _publish(self, firing: Firing, pipe: _Pipe) -> None:
        errors = library("redis.exceptions", "redis")
        stream = firing.job.handler
        fields: list[str | bytes] = ["payload", firing.job.payload, "message-id", firing.message_id]
        for name, value in headers(firing).items():
            fields += (name, value)
        keys = (stream, _mark(stream, firing.message_id))
        try:
            await self._run(pipe, *keys, self._once_s, self._length_max, *fields)
        except errors.RedisError as error:
            text = self._destination.masked(error)
            if isinstance(error, errors.OutOfMemoryError) or NO_MEMORY in text:
                raise NotTakenError(text, is_full=True) from None
            cannot_write = text.startswith(_BUSY) or type(error).__name__ in _CANNOT_WRITE
            if cannot_write or not isinstance(error, errors.ResponseError):
                raise NotTakenError(text, is_up=False if cannot_write else None) from None
            raise self._destination.failed(text) from None
        except OSError as error:
            raise NotTakenError(str(error)) from None

    async def _run(self, pipe: _Pipe, *arguments: str | bytes | int) -> None:
        # the text is for a server that does not know the script's digest yet
        errors = library("redis.exceptions", "redis")
        try:
            await pipe.ask("EVALSHA", sha1(self._add_once).hexdigest(), 2, *arguments)  # noqa: S324  Redis names it so
        except errors.NoScriptError:
            await pipe.ask("EVAL", self._add_once, 2, *arguments)

    async def _connect(self) -> _Pipe:
        redis = library("redis.asyncio", "redis")
        pool = redis.ConnectionPool.from_url(
            self._destination.url,
            socket_timeout=None,
            socket_connect_timeout=self._timeout_s,
            retry=None,
            retry_on_error=[],
            client_name="tickwheel",
            protocol=2,
        )
        connection = pool.make_connection()
        errors = library("redis.exceptions", "redis")
        try:
            await connection.connect()
        except errors.RedisError as error:
            await connection.disconnect()
            if isinstance(error, errors.AuthenticationError | errors.AuthorizationError | errors.ResponseError):
                raise self._destination.failed(error) from None
            raise NotTakenError(self._destination.masked(error), is_up=False) from None
        except OSError as error:
            raise NotTakenError(self._destination.masked(error), is_up=False) from None
        return _Pipe(connection)


class _Pipe:
    """
    A connection that writes each command immediately. The answers arrive in the order of the commands.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self.is_open = True
        self._reading = self._loop.create_task(self._read(), name="tickwheel-redis")

    async def ask(self, *command: str | bytes | int) -> Any:
        if not self.is_open:
            raise ConnectionError(_BROKEN)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(answer)
        silence = self._loop.call_later(_SILENCE_MAX_S, self._give_up_since, self._loop.time())
        try:
            await self._connection.send_packed_command(self._connection.pack_command(*command), check_health=False)
            return await answer
        finally:
            silence.cancel()
            answer.cancel()  # a failed write leaves it pending

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait((self._reading,))

    def _give_up_since(self, begun: float) -> None:
        if self._heard_at < begun:
            self._reading.cancel()

    async def _read(self) -> None:
        errors = library("redis.exceptions", "redis")
        try:
            while True:
                try:
                    found = await self._connection.read_response()
                except errors.ResponseError as refusal:
                    found = refusal
                self._heard_at = self._loop.time()
                answer = self._waiting.popleft()
                if answer.done():  # its caller was cancelled
                    continue
                if isinstance(found, Exception):
                    answer.set_exception(found)
                else:
                    answer.set_result(found)
        except (errors.RedisError, OSError, IndexError):  # IndexError: an unrequested answer
            pass
        finally:
            self.is_open = False
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionError(_BROKEN))
            with suppress(Exception):
                await self._connection.disconnect(nowait=True)


def _mark(stream: str, message_id: str) -> str:
    # a cluster keeps this key on the stream's node
    _, has_begin, rest = stream.partition("{")
    tag = rest.partition("}")
    has_tag = bool(has_begin and tag[1] and tag[0])
    return f"{stream if has_tag else '{' + stream + '}'}:{message_id}"


def _of_url(url: TargetUrl) -> RedisStreamTarget:
    readers = {"length_max": whole, "once_s": seconds, "timeout_s": seconds, "rate": number}
    found = url.take(readers)
    url.refuse_others(readers, REDIS_OPTIONS)
    url.check_port(URL_FORM.example)
    return RedisStreamTarget(url.rest(), **found)


URL_FORM = UrlForm(_of_url, "redis://:password@localhost:6379/0")
