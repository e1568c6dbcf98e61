"""
Idempotency keys: the same request sent again brings the first answer again, and is not done again.

Kept in memory, for an hour at most and up to so many bytes, oldest out first: it is meant for the retry after a lost
answer, not for the restart of the service, after which generations show the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message

from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import drained
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import problem_reply
from tickwheel.service.routes import Endpoint

__all__ = ["IdempotencyKeys"]

_KEPT_S: Final = 3600.0
_BYTES_MAX: Final = 64 << 20
_OF_ONE: Final = 1 << 10
"""What is kept with an answer takes so many bytes, too."""
_KEY_MAX: Final = 200
_PART: Final = (b"if-match", b"if-none-match", b"content-type")
"""The headers that are part of what a request asks for."""


@dataclass(slots=True)
class _Kept:
    """
    One answer, or the promise of it, and which request it answers.
    """

    asked: bytes
    reply: asyncio.Future[Reply]
    since: float
    size: int = 0


class IdempotencyKeys:
    """
    The answers that are kept, by who asked with which key.
    """

    def __init__(self, body_bytes_max: int) -> None:
        self._body_bytes_max = body_bytes_max
        self._kept: OrderedDict[tuple[bytes, str], _Kept] = OrderedDict()
        self._promised: dict[tuple[bytes, str], _Kept] = {}
        self._size = 0

    async def reply(self, call: Request, run: Endpoint) -> ASGIApp:
        """
        Return the answer to *call*: the kept one, or what *run* answers, which is kept from then on.
        """
        key = call.header(b"idempotency-key") or ""
        if not 0 < len(key) <= _KEY_MAX or not key.isascii() or not key.isprintable() or " " in key:
            message = f"Idempotency-Key is {show(key)}: give 1 to {_KEY_MAX} visible ASCII characters"
            raise ProblemError("malformed_request", message, value=key)
        place = (hashlib.sha256((call.header(b"authorization") or "").encode()).digest(), key)
        asked = await _fingerprint(call, self._body_bytes_max)
        self._forget()
        kept = self._promised.get(place) or self._kept.get(place)
        if kept is None:
            return await self._first(place, asked, call, run)
        if kept.asked != asked:
            message = f"the Idempotency-Key {show(key)} was sent with another request before"
            raise ProblemError("idempotency_key_reused", message, value=key)
        return await asyncio.shield(kept.reply)

    async def _first(self, place: tuple[bytes, str], asked: bytes, call: Request, run: Endpoint) -> Reply:
        kept = _Kept(asked, asyncio.get_running_loop().create_future(), time.monotonic())
        self._promised[place] = kept
        try:
            reply = await _answered(call, run)
        except BaseException as error:
            # Nothing is kept, so that a retry is done; a caller that waits for this answer hears what happened to it.
            is_heard = isinstance(error, Exception) and not isinstance(error, ClientDisconnect)
            what = "the first request with this Idempotency-Key was cut off"
            cut_off = ProblemError("store_unavailable", what, is_unknown=True)
            kept.reply.set_exception(error if is_heard else cut_off)
            kept.reply.exception()  # heard, even if nobody waits
            raise
        finally:
            del self._promised[place]
        kept.reply.set_result(reply)
        kept.since, kept.size = time.monotonic(), len(reply.body) + _OF_ONE
        self._kept[place] = kept
        self._size += kept.size
        return reply

    def _forget(self) -> None:
        """
        Drop what is too old, and the oldest of what is too much.
        """
        since = time.monotonic() - _KEPT_S
        while self._kept:
            place, kept = next(iter(self._kept.items()))
            if kept.since > since and self._size <= _BYTES_MAX:
                return
            del self._kept[place]
            self._size -= kept.size


async def _answered(call: Request, run: Endpoint) -> Reply:
    try:
        reply = await run(call)
    except ProblemError as problem:
        if "retry-after" in problem.headers:  # a 429 or 503, which asks for the same request again
            raise
        return problem_reply(call, problem)
    assert isinstance(reply, Reply), "no write answers with a stream"
    return reply


async def _fingerprint(call: Request, body_bytes_max: int) -> bytes:
    """
    Return what identifies the request, and let its body be read once more.
    """
    body = await drained(call.receive, body_bytes_max)
    heads = [b"%b=%b" % (name, call.headers[name]) for name in _PART if name in call.headers]  # empty is not absent
    parts = (call.method.encode(), call.raw_path, call.query_string, b"%d" % len(heads), *heads, body)

    original, is_read = call.receive, False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:  # what follows is that the client goes away
            return await original()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    call.receive = receive
    return hashlib.sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()
