"""
The Redis target: an entry in the stream that the job names as its handler.

    field             value
    payload           the JSON bytes
    message-id        the same for all attempts
    tickwheel-...     see `_headers`

A message that was added and not confirmed is sent again and not added twice, as long as its mark is kept.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._url import REDIS_OPTIONS, REDIS_SCHEMES, TargetUrl, UrlForm, seconds, whole
from tickwheel.targets.contract import Call, Firing
from tickwheel.typing import Duration

__all__ = ["RedisStreamTarget"]

_CONNECTIONS_MAX = 16


class RedisStreamTarget:
    """
    Adds to streams of one Redis, or of whatever speaks its protocol and its Lua.

    Args:
        url: Such as "redis://localhost:6379/0".
        length_max: How long a stream may become, about (`MAXLEN ~`); None: as long as it will.
        once_s: For how many seconds a repeat is known and not added again; rounded up.
        timeout_s: How long connecting, and waiting for an answer, may take.

    Raises:
        InvalidJobError: For a URL of another kind, a time that is not positive, or a length out of range.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        *,
        length_max: int | None = None,
        once_s: Duration = 3_600,
        timeout_s: Duration = 10.0,
    ) -> None:
        self._destination = Destination.of_url(url, REDIS_SCHEMES, "redis://localhost:6379/0")
        most = checks.NUMBER_MAX
        self._length_max = 0 if length_max is None else checks.check_count("length_max", length_max, most)
        self._once_s = math.ceil(checks.span_ms("once_s", once_s) / 1000)
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._client: Any = None
        self._add_once: Any = None

    def __repr__(self) -> str:
        return f"RedisStreamTarget({self._destination.shown!r})"

    def check(self, handler: str) -> None:
        """
        Refuse what is not the name of a stream.
        """
        if not handler or not handler.isprintable():
            raise InvalidJobError("handler", handler, "name the stream that the message goes to, such as 'orders'")

    def resolve(self, handler: str) -> Call:
        """
        Return the call that adds to the stream *handler*.
        """
        self.check(handler)
        library("redis.asyncio", "redis")
        return Call(self._send, is_async=True, wants_payload=False, wants_firing=True)

    async def close(self) -> None:
        """
        Close the connections.
        """
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(self, firing: Firing) -> None:
        redis = library("redis.asyncio", "redis")
        stream = firing.job.handler
        fields: list[str | bytes] = ["payload", firing.job.payload, "message-id", firing.message_id]
        for name, value in headers(firing).items():
            fields += (name, value)
        try:
            add_once = self._opened()
            await add_once([stream, _mark(stream, firing.message_id)], [self._once_s, self._length_max, *fields])
        except (redis.RedisError, OSError) as error:
            raise self._destination.failed(error) from None

    def _opened(self) -> Any:
        """
        Return the script; the client is made on the event loop that uses it.
        """
        if self._client is None:
            redis = library("redis.asyncio", "redis")
            pool = redis.BlockingConnectionPool.from_url(  # who finds none free waits, and does not fail
                self._destination.url,
                max_connections=_CONNECTIONS_MAX,
                timeout=self._timeout_s,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                retry=None,
                retry_on_error=[],
                client_name="tickwheel",
            )
            self._client = redis.Redis.from_pool(pool)
            self._add_once = self._client.register_script(Path(__file__).with_name("add_once.lua").read_text("utf-8"))
        return self._add_once


def _mark(stream: str, message_id: str) -> str:
    """
    Return the key that says that a message is in *stream*: one that a cluster keeps on the stream's own node.
    """
    _, has_begin, rest = stream.partition("{")
    tag = rest.partition("}")
    has_tag = bool(has_begin and tag[1] and tag[0])
    return f"{stream if has_tag else '{' + stream + '}'}:{message_id}"


def _of_url(url: TargetUrl) -> RedisStreamTarget:
    readers = {"length_max": whole, "once_s": seconds, "timeout_s": seconds}
    found = url.take(readers)
    url.refuse_others(readers, REDIS_OPTIONS)
    url.check_port(URL_FORM.example)
    return RedisStreamTarget(url.rest(), **found)


URL_FORM = UrlForm(_of_url, "redis://:password@localhost:6379/0")
