"""
The last firings of the other nodes. This node polls the other nodes once a second while a page is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import read_body
from tickwheel.service.peers import Peer, Peers, UnreachablePeerError
from tickwheel.service.problems import ProblemError
from tickwheel.service.replies import document_reply

__all__ = ["FORWARDED_FIRINGS", "OtherFirings"]

FORWARDED_FIRINGS: Final = b"/internal/firings"
"""Path at which other nodes request the firings of this node; it is not part of the API."""
_EVERY_S: Final = 1.0
"""Interval between two requests to one node, in seconds."""
_ANSWER_S: Final = 2.0
_RECORDS_MAX: Final = 500
"""Maximum number of ended firings, and of running firings, remembered for each node."""
_BODY_BYTES_MAX: Final = 4_096


class _Node:
    def __init__(self) -> None:
        self.number = 0
        self._ended: deque[FiringRecord] = deque(maxlen=_RECORDS_MAX)
        self._running: list[FiringRecord] = []

    def add(self, records: Iterable[FiringRecord]) -> None:
        self._running = []
        for record in records:
            (self._ended if record.number else self._running).append(record)
            self.number = max(self.number, record.number)

    def recent(self, after: int = 0) -> Sequence[FiringRecord]:
        return [*(each for each in self._ended if each.number > after), *self._running]


class OtherFirings:
    def __init__(self, scheduler: AsyncScheduler, peers: Peers) -> None:
        self._scheduler = scheduler
        self._peers = peers
        self._lock = asyncio.Lock()
        self._asked_at = -_EVERY_S
        self._task: asyncio.Task[None] | None = None
        self.nodes: dict[str, _Node] = {}
        """The nodes, by secret. A restarted node has a new secret."""

    def touch(self) -> None:
        is_asked = self._task is not None and not self._task.done()
        if not is_asked and time.monotonic() - self._asked_at >= _EVERY_S:
            self._task = asyncio.create_task(self.refresh())

    async def refresh(self) -> None:
        """
        Poll all nodes, at most once a second. If a node does not answer, its previously reported firings are used.
        """
        async with self._lock:
            if time.monotonic() - self._asked_at < _EVERY_S:
                return
            try:
                peers = await self._peers.others()
            except StoreError:  # every other read of the store reports this error
                peers = []
            self.nodes = {peer.secret: self.nodes.get(peer.secret) or _Node() for peer in peers}
            await asyncio.gather(*map(self._ask, peers))
            self._asked_at = time.monotonic()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _ask(self, peer: Peer) -> None:
        node = self.nodes[peer.secret]
        with contextlib.suppress(UnreachablePeerError):
            body = {"after": node.number}
            found = await self._peers.ask(
                peer, body, list[FiringRecord], path=FORWARDED_FIRINGS.decode(), answer_s=_ANSWER_S
            )
            node.add(found or ())

    async def forwarded(self, call: Request) -> Reply:
        # other callers get `page_not_found`
        if not self._peers.is_peer(call):
            raise ProblemError("page_not_found", "there is nothing at this address", value=call.path)
        asked: dict[str, Any] = msgspec.json.decode(await read_body(call, _BODY_BYTES_MAX))
        records = self._scheduler.recent(asked["after"])
        running = [record for record in records if not record.number][:_RECORDS_MAX]
        return document_reply([*(record for record in records if record.number), *running])
