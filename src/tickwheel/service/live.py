"""
The page's stream: server-sent events, a snapshot first, then each change as it comes.

A change on a scheduler's thread wakes the loop once, however many follow before it is awake, and the loop wakes the
watchers. Each then waits a moment and tells all that has gathered, so a thousand firings a second are ten messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from tickwheel.errors import ClosedError
from tickwheel.scheduler.errors import StoreError
from tickwheel.service.documents import firing_document
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.http import Call
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import encode
from tickwheel.service.tokens import Access

__all__ = ["Live"]

_STATS_EVERY_S: Final = 1.0
_GATHER_S: Final = 0.1
_FIRINGS_MAX: Final = 100


class Live:
    """
    All live pages. Everything but `wake` runs on the service's loop.
    """

    def __init__(self, firings: Firings, figures: Figures, watchers_max: int) -> None:
        """
        Tell at most *watchers_max* pages at once.
        """
        self._firings = firings
        self._figures = figures
        self._watchers_max = watchers_max
        self._watchers: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_waking = False
        self._is_closing = False

    def open(self) -> None:
        """
        Begin, on the running loop.
        """
        self._loop = asyncio.get_running_loop()
        self._firings.on_change = self.wake

    def close(self) -> None:
        """
        End every stream.
        """
        self._firings.on_change = None
        self._is_closing = True
        self._wake_watchers()

    def wake(self) -> None:
        """
        Say, from any thread, that there is something new.
        """
        if self._watchers and not self._is_waking and self._loop is not None:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._wake_watchers)

    def _wake_watchers(self) -> None:
        self._is_waking = False
        for watcher in self._watchers:
            watcher.set()

    async def stream(self, call: Call) -> Response:
        """
        Answer with the stream.
        """
        if len(self._watchers) >= self._watchers_max:
            message = f"{self._watchers_max} pages are live already"
            raise ProblemError("too_many_requests", message, headers={"retry-after": "10"})
        return StreamingResponse(
            self._events(can_write=call.scope.get("tickwheel.access") is not Access.READ),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _events(self, *, can_write: bool) -> AsyncIterator[bytes]:
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        loop = asyncio.get_running_loop()
        try:
            yield await self._stats(can_write=can_write)
            seen, message = self._news(0, is_snapshot=True)
            yield message
            stats_at = loop.time() + _STATS_EVERY_S
            while not self._is_closing:
                if await _is_set_before(watcher, stats_at):
                    await asyncio.sleep(_GATHER_S)
                    watcher.clear()
                    if self._firings.sequence != seen:
                        seen, message = self._news(seen, is_snapshot=False)
                        yield message
                if loop.time() >= stats_at:
                    stats_at = loop.time() + _STATS_EVERY_S
                    yield await self._stats(can_write=can_write)
        finally:
            self._watchers.discard(watcher)

    async def _stats(self, *, can_write: bool) -> bytes:
        """
        Return the figures, and whether this page may write; where the store does not give them, what is wrong with it.
        """
        try:
            return _event("stats", await self._figures.stats() | {"can_write": can_write})
        except (StoreError, ClosedError) as error:
            return _event("trouble", {"detail": str(error)})

    def _news(self, seen: int, *, is_snapshot: bool) -> tuple[int, bytes]:
        firings = self._firings.after(seen, _FIRINGS_MAX)
        document = {"is_snapshot": is_snapshot, "firings": [firing_document(firing) for firing in firings]}
        return firings[-1].sequence if firings else seen, _event("firings", document)


async def _is_set_before(event: asyncio.Event, when: float) -> bool:
    try:
        async with asyncio.timeout_at(when):
            return await event.wait()
    except TimeoutError:
        return False


def _event(name: str, document: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(document))
