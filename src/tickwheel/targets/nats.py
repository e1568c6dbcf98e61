"""
The NATS target: a message on the subject that the job names as its handler.

With JetStream, the default, the job is done when a stream has stored the message. The header `Nats-Msg-Id` is the same
for all attempts, so the stream drops a repeat within its duplicate window (two minutes by default). Without JetStream,
the job is done when the server has read the message, and only current subscribers get it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.targets._destination import Destination
from tickwheel.targets._headers import headers
from tickwheel.targets._library import library
from tickwheel.targets._link import Link, Linked
from tickwheel.targets._not_taken import NotTakenError
from tickwheel.targets._url import TargetUrl, UrlForm, flag, number, seconds
from tickwheel.targets.contract import DeadLetter, Firing
from tickwheel.typing import Duration

__all__ = ["NatsTarget"]

_TOO_LARGE_FOR_STREAM: Final = 10054
_FULL: Final = frozenset({10023, 10028, 10047, 10077})
"""JetStream's error codes for a full stream: resources, account limits, storage, or limits of the stream itself."""
_ANSWER_S: Final = 86_400.0
"""Seconds that the client waits for an answer, much longer than an attempt waits."""
_PING_S: Final = 10
"""Seconds between the client's pings. The client closes a connection after two unanswered pings."""
_BROKEN: Final = "the connection broke"
_REFUSED: Final = re.compile(r'permissions violation for publish to (".*")')


class NatsTarget(Linked):
    """
    Publishes to one NATS server or cluster.

    Args:
        url: Such as "nats://user:password@localhost:4222"; with tls://, a server without TLS is refused.
        jetstream: True if a stream must store the message; False to reach plain subscribers.
        timeout_s: Time limit of connecting, and of an attempt's wait for the answer.
        rate: Maximum number of messages a second, evenly spaced; None for no limit.
    """

    def __init__(
        self,
        url: str = "nats://localhost:4222",
        *,
        jetstream: bool = True,
        timeout_s: Duration = 10.0,
        rate: float | None = None,
    ) -> None:
        self._destination = Destination.of_url(url, ("nats", "tls"), "nats://localhost:4222")
        self._is_jetstream = jetstream
        self._timeout_s = checks.positive_s("timeout_s", timeout_s)
        self._rate = checks.limit_rate(rate)
        self._link: Link[_Connection] = Link(
            self._destination.shown,
            self._timeout_s,
            self._connect,
            lambda held: held.client.close(),
            lambda held: held.client.is_connected,
        )

    def __repr__(self) -> str:
        return f"NatsTarget({self._destination.shown!r}, jetstream={self._is_jetstream})"

    def check(self, handler: str) -> None:
        tokens = handler.split(".")
        if not all(token and token.isprintable() and not set(token) & set(" *>") for token in tokens):
            raise InvalidJobError(
                "handler", handler, "name a subject such as 'orders.unpaid', without spaces and wildcards"
            )

    def require(self) -> None:
        library("nats", "nats")

    async def _publish(self, firing: Firing, held: _Connection) -> DeadLetter | None:
        errors = library("nats.errors", "nats")
        subject, payload = firing.job.handler, firing.job.payload
        fields = {"Nats-Msg-Id": firing.message_id, **headers(firing)}
        size, most = len(payload) + _size(fields), held.client.max_payload
        if size > most:
            where = self._destination.shown
            return DeadLetter(f"the message is too large for {where}: it has {size} bytes, and max_payload is {most}")
        try:
            await held.unless_refused(subject, self._put(held.client, subject, payload, fields))
        except asyncio.CancelledError:
            if held.client.is_closed:
                raise NotTakenError(_BROKEN) from None
            raise
        except errors.Error as error:
            code = getattr(error, "err_code", None)
            if type(error).__name__ in ("NoStreamResponseError", "NoRespondersError"):
                message = f"no stream takes {subject!r}: add one, or pass jetstream=False"
                raise self._destination.failed(message) from None
            if code == _TOO_LARGE_FOR_STREAM:
                return DeadLetter(f"the message is too large for the stream of {subject!r}: see its max_msg_size")
            if code in _FULL:
                reason = f"the stream of {subject!r} is full: {self._destination.masked(error)}"
                raise NotTakenError(reason, is_full=True) from None
            if held.client.is_connected and not isinstance(error, errors.TimeoutError):
                raise self._destination.failed(error) from None
            raise NotTakenError(_BROKEN) from None
        except (TimeoutError, OSError, EOFError) as error:
            raise NotTakenError(self._destination.masked(error)) from None
        return None

    async def _put(self, client: Any, subject: str, payload: bytes, fields: dict[str, str]) -> None:
        if self._is_jetstream:
            await client.jetstream().publish(subject, payload, timeout=_ANSWER_S, headers=fields)
        else:
            await client.publish(subject, payload, headers=fields)
            await asyncio.shield(client.flush(timeout=_ANSWER_S))  # cancelling it would end the client's reader

    async def _connect(self) -> _Connection:
        parts = urlsplit(self._destination.url)
        login: dict[str, str] = {}  # passed separately, because the client does not decode the parts of a URL
        if parts.password is not None:
            login = {"user": unquote(parts.username or ""), "password": unquote(parts.password)}
        elif parts.username is not None:
            login = {"token": unquote(parts.username)}
        held = _Connection(library("nats.aio.client", "nats").Client())
        if parts.scheme == "tls":
            _require_tls(held.client)
        try:
            await held.client.connect(
                parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(),
                **login,
                name="tickwheel",
                connect_timeout=self._timeout_s,
                pending_size=1,  # makes `publish` write at once: otherwise the ping of `flush` would overtake it
                allow_reconnect=False,
                max_reconnect_attempts=1,  # tries of the first connection
                reconnect_time_wait=0,
                ping_interval=_PING_S,
                error_cb=held.note,
                closed_cb=held.lose,
            )
        except BaseException as error:
            await held.client.close()  # after a refusal the client may still be open
            if isinstance(error, TimeoutError) or not isinstance(error, Exception):
                raise
            if any(word in str(error).lower() for word in ("authorization", "authentication")):
                raise self._destination.failed(error) from None
            raise NotTakenError(self._destination.masked(error), is_up=False) from None
        return held


class _Connection:
    """
    A client, and the refusals of its server. A refusal arrives as an error that names the subject, not as an answer.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refusals: WeakValueDictionary[str, asyncio.Future[Exception]] = WeakValueDictionary()

    async def unless_refused(self, subject: str, sending: Coroutine[Any, Any, None]) -> None:
        """
        Await *sending*, which sends a message on *subject*. If the server refuses the message, raise the refusal.
        """
        name = json.dumps(subject, ensure_ascii=False).lower()  # as the server writes it, and the client passes it on
        refusal = self._refusals.get(name)
        if refusal is None or refusal.done():
            refusal = self._refusals[name] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(sending)
        try:
            await asyncio.wait((refusal, self._lost, task), return_when=asyncio.FIRST_COMPLETED)
            if refusal.done():
                raise refusal.result()
            if not task.done():  # the client forgets messages that wait for an answer
                raise NotTakenError(_BROKEN)
            await task
        finally:
            task.cancel()

    async def lose(self) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    async def note(self, error: Exception) -> None:
        # without this callback, the client would log the contents of the error
        found = _REFUSED.search(str(error))
        refusal = self._refusals.get(found[1]) if found else None
        if refusal is not None and not refusal.done():
            refusal.set_result(error)


def _require_tls(client: Any) -> None:
    # otherwise the client would send password and payloads unencrypted to a server without TLS
    process = client._process_info  # noqa: SLF001  it processes the announcement before the client answers

    async def checked(info: dict[str, Any], *args: Any, **named: Any) -> Any:
        if info.get("tls_available"):
            info["tls_required"] = True
        if not info.get("tls_required"):
            reason = "the server offers no TLS, which tls:// asks for: nothing was sent"
            raise NotTakenError(reason, is_up=False)
        return await process(info, *args, **named)

    client._process_info = checked  # noqa: SLF001  as above


def _size(fields: dict[str, str]) -> int:
    # the server counts the headers as payload
    return len("NATS/1.0\r\n\r\n") + sum(len(name) + len(value) + len(": \r\n") for name, value in fields.items())


def _of_url(url: TargetUrl) -> NatsTarget:
    readers = {"jetstream": flag, "timeout_s": seconds, "rate": number}
    found = url.take(readers)
    url.refuse_others(readers)
    url.check_port(URL_FORM.example)
    return NatsTarget(url.rest(), **found)


URL_FORM = UrlForm(_of_url, "nats://user:password@localhost:4222")
