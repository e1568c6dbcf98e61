"""
The page's stream of server-sent events: first a snapshot, then the starts and ends of firings.

Each stream polls the scheduler's memory ten times a second, so a thousand firings a second make only ten messages.
Without an open page, nothing is polled.

If a client's token has a prefix, the client gets only the firings of the token's keys. It gets no figures, because they
cover all jobs. Instead, it gets `reach`: the prefix, the right to write, the address of traces, and the clock. It gets
no message for the firing of another key, because even an empty message would reveal the firing.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from tickwheel.errors import ClosedError
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.service.documents import firing_document
from tickwheel.service.figures import LIVE_FIELDS, Figures, to_own
from tickwheel.service.firings import Firings, Seen
from tickwheel.service.guard import remaining_s
from tickwheel.service.http import Request
from tickwheel.service.intake import query
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import encode
from tickwheel.service.token_scope import allows_prefixed_tokens, narrowed
from tickwheel.service.tokens import Access

__all__ = ["Live"]

_STATS_EVERY_S: Final = 1.0
_LOOK_EVERY_S: Final = 0.1
_FIRINGS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class PageScope:
    prefix: str
    can_write: bool
    trace_url: str | None


class Live:
    def __init__(
        self, firings: Firings, figures: Figures, watchers_max: int, trace_url: str | None, length_s: float | None
    ) -> None:
        self._length_s = math.inf if length_s is None else length_s
        self._trace_url = trace_url
        self._firings = firings
        self._figures = figures
        self._watchers_max = watchers_max
        self._watchers = 0
        self._closed = asyncio.Event()

    def close(self) -> None:
        self._closed.set()

    @allows_prefixed_tokens
    async def stream(self, call: Request) -> Response:
        """
        Answer with the stream. The stream ends when the token expires.

        The stream has the firings of all nodes; firings of other nodes may arrive a second later. With `nodes=this`,
        the stream has only the firings of this process. A token with a prefix gets only the firings of its keys.
        """
        if self._watchers >= self._watchers_max:
            message = f"{self._watchers_max} pages are live already"
            raise ProblemError("too_many_requests", message, headers={"retry-after": "10"})
        can_write = call.scope.get("tickwheel.access") != Access.READ
        is_own = to_own(query(call, LIVE_FIELDS))
        sight = PageScope(narrowed(call, ""), can_write, self._trace_url)
        return StreamingResponse(
            () if call.method == "HEAD" else self._events(remaining_s(call), sight, is_own=is_own),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _events(self, valid_s: float | None, sight: PageScope, *, is_own: bool) -> AsyncIterator[bytes]:
        self._watchers += 1
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (self._length_s if valid_s is None else min(valid_s, self._length_s))
        seen = Seen()
        news = partial(self._firings.news, seen, _FIRINGS_MAX, sight.prefix, is_own=is_own)
        try:
            yield await self._stats(sight)
            if not is_own:
                await self._firings.refresh()
            yield _event_of(news(), is_snapshot=True)
            stats_at = loop.time() + _STATS_EVERY_S
            while loop.time() < ends_at and not await _is_set_within(self._closed, _LOOK_EVERY_S):
                if not is_own:
                    self._firings.touch()
                if found := news():
                    yield _event_of(found, is_snapshot=False)
                if loop.time() >= stats_at:
                    stats_at = loop.time() + _STATS_EVERY_S
                    yield await self._stats(sight)
        finally:
            self._watchers -= 1

    async def _stats(self, sight: PageScope) -> bytes:
        try:
            stats = await self._figures.stats()
        except (StoreError, ClosedError) as error:
            return _event("trouble", asdict(sight) | {"detail": str(error), "since": self._silent_since()})
        if sight.prefix:
            return _event("reach", asdict(sight) | {"now": stats["now"]})
        return _event("stats", asdict(sight) | stats)

    def _silent_since(self) -> datetime | None:
        try:
            return self._figures.silent_since()
        except (StoreError, ClosedError):  # for example, this scheduler is a client of another service
            return None


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _event_of(firings: list[FiringRecord], *, is_snapshot: bool) -> bytes:
    return _event("firings", {"is_snapshot": is_snapshot, "firings": [firing_document(each) for each in firings]})


def _event(name: str, document: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(document))
