"""
Idempotency keys: a repeated request is not executed again but gets the first answer.

The store keeps the answer to a write in the transaction of the write. So every node can answer a repeated request,
immediately or after a crash. For an operation with several writes, a node claims the key, executes the operation, and
stores the reply. Each process also remembers some of its last replies, in case the store cannot keep answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message

from tickwheel.jobs.errors import StoreError, StoreFullError
from tickwheel.jobs.model import Outcome, Recalled
from tickwheel.jobs.once import ONCE, Repeat
from tickwheel.scheduler.repeats import Keeper
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import drained
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import problem_reply
from tickwheel.service.routes import Endpoint, KeptBy
from tickwheel.service.strict_json import is_small

__all__ = ["IdempotencyKeys"]

_LOG: Final = logging.getLogger("tickwheel.service")

_KEPT_S: Final = 3600.0
_CLAIM_MS: Final = 5_000
"""Age, in ms, at which another node may take over a node's claim on an idempotency key."""
_PATIENCE_S: Final = 8.0
"""Maximum wait, in seconds, for another node that executes the same request. After this wait the answer is 503."""
_LOOK_FIRST_S: Final = 0.02
_LOOK_MAX_S: Final = 0.5
_BYTES_MAX: Final = 64 << 20
_OF_ONE: Final = 1 << 10
"""Overhead in bytes, which is added to the size of each remembered answer."""
_KEY_MAX: Final = 200
_PART: Final = (b"if-match", b"if-none-match", b"content-type")
"""Headers that must be the same in a repeated request."""


@dataclass(slots=True)
class _Kept:
    asked: bytes
    reply: asyncio.Future[Reply]
    since: float
    size: int = 0


class IdempotencyKeys:
    def __init__(self, body_bytes_max: int, keeper: Keeper | None = None) -> None:
        self._keeper = keeper
        self._body_bytes_max = body_bytes_max
        self._kept: OrderedDict[tuple[bytes, str], _Kept] = OrderedDict()
        self._promised: dict[tuple[bytes, str], _Kept] = {}
        self._size = 0

    async def reply(self, call: Request, run: Endpoint, kept_by: KeptBy = "request") -> ASGIApp:
        key = call.header(b"idempotency-key") or ""
        if not 0 < len(key) <= _KEY_MAX or not key.isascii() or not key.isprintable() or " " in key:
            message = f"Idempotency-Key is {show(key)}: give 1 to {_KEY_MAX} visible ASCII characters"
            raise ProblemError("malformed_request", message, value=key)
        place = (hashlib.sha256((call.header(b"authorization") or "").encode()).digest(), key)
        asked = await _fingerprint(call, self._body_bytes_max)
        self._forget()
        kept = self._promised.get(place) or self._kept.get(place)
        if kept is None:
            return await self._first(place, asked, call, run, kept_by)
        if kept.asked != asked:
            raise _reused(key)
        return await asyncio.shield(kept.reply)

    async def _first(
        self, place: tuple[bytes, str], asked: bytes, call: Request, run: Endpoint, kept_by: KeptBy
    ) -> Reply:
        kept = _Kept(asked, asyncio.get_running_loop().create_future(), time.monotonic())
        self._promised[place] = kept
        try:
            reply = await self._done(place, asked, call, run, kept_by)
        except BaseException as error:
            # Keep nothing, so that a retry runs the operation. Callers that wait for this answer get the error.
            is_heard = isinstance(error, Exception) and not isinstance(error, ClientDisconnect)
            what = "the first request with this Idempotency-Key was cut off"
            cut_off = ProblemError("store_unavailable", what, is_unknown=True)
            kept.reply.set_exception(error if is_heard else cut_off)
            kept.reply.exception()  # keeps asyncio from logging the error if no caller waits
            raise
        finally:
            del self._promised[place]
        kept.reply.set_result(reply)
        if not reply.is_final:
            return reply
        kept.since, kept.size = time.monotonic(), len(reply.body) + _OF_ONE
        self._kept[place] = kept
        self._size += kept.size
        return reply

    async def _done(
        self, place: tuple[bytes, str], asked: bytes, call: Request, run: Endpoint, kept_by: KeptBy
    ) -> Reply:
        if self._keeper is None or kept_by == "node":
            return await _answered(call, run)
        caller, key = place
        token = hashlib.sha256(caller + key.encode()).hexdigest()[:32]
        repeat = Repeat(token, asked.hex()[:32], int(_KEPT_S * 1000))
        if kept_by == "write" and self._keeper.is_whole:
            return await _marked(repeat, call, run)
        kept = await self._claimed(self._keeper, repeat, key)
        if kept is not None:
            return kept
        try:
            reply = await _marked(repeat, call, run)
        except BaseException:
            await asyncio.shield(self._settled(self._keeper, repeat, None))
            raise
        return await self._settled(self._keeper, repeat, reply) or reply

    async def _claimed(self, keeper: Keeper, repeat: Repeat, key: str) -> Reply | None:
        """
        Claim the key for this node, or return the reply that another node has stored.

        Raises a problem if the key was used for another request, or if another node is still executing this request.
        """
        wait_s, give_up = _LOOK_FIRST_S, time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = await keeper.keep(repeat.keep(b"", _CLAIM_MS))
            except StoreFullError:  # continue without a claim: a cancel needs no space
                return None
            match answer.outcome:
                case Outcome.KEY_REUSED:
                    raise _reused(key)
                case Outcome.KEPT if isinstance(answer, Recalled):
                    return _reply_of(answer.data)
                case Outcome.TOO_LATE if time.monotonic() > give_up:
                    raise _under_way(key)
                case Outcome.TOO_LATE:
                    await asyncio.sleep(wait_s)
                    wait_s = min(2 * wait_s, _LOOK_MAX_S)
                case _:
                    return None

    async def _settled(self, keeper: Keeper, repeat: Repeat, reply: Reply | None) -> Reply | None:
        """
        Store *reply*, or release the claim if there is no final reply. Return any reply that another node stored first.
        """
        try:
            data = None if reply is None or not reply.is_final else _data_of(reply)
            answer = await keeper.keep(repeat.keep(data))
        except StoreError as error:  # harmless: the writes have their marks, and the claim expires
            _LOG.warning("the reply to a request with an Idempotency-Key is not kept: %s", error)
            return None
        return _reply_of(answer.data) if isinstance(answer, Recalled) else None

    def _forget(self) -> None:
        since = time.monotonic() - _KEPT_S
        while self._kept:
            place, kept = next(iter(self._kept.items()))
            if kept.since > since and self._size <= _BYTES_MAX:
                return
            del self._kept[place]
            self._size -= kept.size


def _reused(key: str) -> ProblemError:
    message = f"the Idempotency-Key {show(key)} was sent with another request before"
    return ProblemError("idempotency_key_reused", message, value=key)


def _under_way(key: str) -> ProblemError:
    message = f"the first request with the Idempotency-Key {show(key)} is still being done"
    return ProblemError("store_unavailable", message, is_unknown=True, headers={"retry-after": "1"})


def _data_of(reply: Reply) -> bytes:
    extra = [[part.decode("latin-1") for part in header] for header in reply.extra]
    head = json.dumps([reply.status, reply.kind.decode(), extra]).encode()
    return head + b"\n" + reply.body


def _reply_of(data: bytes) -> Reply:
    head, _, body = data.partition(b"\n")
    status, kind, extra = json.loads(head)
    return Reply(status, kind.encode(), body, *((name.encode(), value.encode("latin-1")) for name, value in extra))


async def _marked(repeat: Repeat, call: Request, run: Endpoint) -> Reply:
    token = ONCE.set(repeat)
    try:
        return await _answered(call, run)
    finally:
        ONCE.reset(token)


async def _answered(call: Request, run: Endpoint) -> Reply:
    try:
        reply = await run(call)
    except ProblemError as problem:
        if "retry-after" in problem.headers:  # a 429 or 503, which asks for a repeat
            raise
        if problem.kind.name == "idempotency_key_reused":  # the key belongs to another request
            raise
        return problem_reply(call, problem)
    assert isinstance(reply, Reply), "no write answers with a stream"
    return reply


async def _fingerprint(call: Request, body_bytes_max: int) -> bytes:
    # the body is buffered, so that it can be read again
    body = await drained(call.receive, body_bytes_max)
    heads = [b"%b=%b" % (name, call.headers[name]) for name in _PART if name in call.headers]  # may be empty
    parts = (call.method.encode(), call.raw_path, call.query_string, b"%d" % len(heads), *heads, body)

    original, is_read = call.receive, False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:  # the next message is the client's disconnect
            return await original()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    call.receive = receive
    return _digest(parts) if is_small(body) else await asyncio.to_thread(_digest, parts)


def _digest(parts: Sequence[bytes]) -> bytes:
    return hashlib.sha256(b"\0".join(b"%d:%b" % (len(part), part) for part in parts)).digest()
