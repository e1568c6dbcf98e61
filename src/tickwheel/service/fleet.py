"""
The fleet, which is every process that fires jobs of the store. Any node can report it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert

from tickwheel.scheduler import AsyncScheduler, Node, Shard
from tickwheel.service.documents import Moment, ShardDocument, instant, shard_document
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request
from tickwheel.service.replies import document_reply

__all__ = ["Fleet", "FleetDocument", "NodeDocument"]

_MISSED: Final = 2.25
"""A node without a report for this many report intervals is shown as silent."""
NodeState: TypeAlias = Literal["well", "silent", "gone"]


class LatelyDocument(Struct, frozen=True):
    """
    The firings of a node in the last `span_s` seconds (about a minute at most), and their lateness.
    """

    span_s: float
    fired: int
    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class NodeProgressDocument(Struct, frozen=True):
    """
    The progress of an attempt on a node, from 0 to 1, and a note about it in words. The handler reported both.
    """

    key: str
    generation: int
    attempt: int
    fraction: float
    note: str


class NodeFiringDocument(Struct, frozen=True):
    """
    A firing that ended on a node: succeeded, failed, snoozed, died, stopped or superseded.
    """

    key: str
    generation: int
    attempt: int
    fired_at: Moment
    lateness_ms: float
    outcome: str


class NodeFiguresDocument(Struct, frozen=True):
    """
    The last report of a node: totals since its start, and its current work.

    `places` is the number of threads that run handlers. `progress` lists the first 50 running firings that report
    progress, and `recent` lists the last 50 firings that ended.
    """

    version: str
    started_at: Moment
    every_s: float
    fired: int
    failed: int
    dead: int
    places: int
    staged: int
    in_memory: int
    waiting: int
    in_flight: int
    lately: LatelyDocument
    progress: list[NodeProgressDocument] = []
    recent: list[NodeFiringDocument] = []


class NodeDocument(Struct, frozen=True):
    """
    A process that fires jobs, or that did so in the last ten minutes.

    A node is `silent` if its reports are overdue but its leases are valid, and `gone` after its leases have ended.
    `heard_at` and `figures` are null if the node has not reported. The figures of the owner of an SQLite file are known
    only to the owner itself. `tails` has the numbers of the shards that the node handed over while it was still running
    some of their jobs.
    """

    owner: str
    is_this: bool
    state: NodeState
    heard_at: Moment | None
    until: Moment | None
    shards: list[int]
    tails: list[int]
    figures: NodeFiguresDocument | None


class FleetDocument(Struct, frozen=True):
    """
    All nodes of the store, and all its shards. Tails (the running jobs of handed-over shards) are left out.

    `now` is the store's time, and `owner` is the process that answers. The `owner` of a shard is null if no listed node
    owns it.
    """

    now: Moment
    store: str
    owner: str | None
    nodes: list[NodeDocument]
    shards: list[ShardDocument]


class Fleet:
    def __init__(self, scheduler: AsyncScheduler, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures

    async def get(self, _request: Request) -> Reply:
        """
        Return every process that fires jobs, with its shards, lateness and load.
        """
        return document_reply(await self.read())

    async def read(self) -> FleetDocument:
        nodes = {each.owner: each for each in await self._scheduler.nodes()}
        shards = await self._scheduler.shards()
        stats = await self._figures.scheduler_stats()  # after the read of the nodes, which updates the store's clock
        now, owner = int(time.time() * 1000 + stats["offset_ms"]), stats["owner"]
        number = stats["shards_all"]
        return FleetDocument(
            instant(now),
            stats["store"],
            owner,
            [_node(each, owner, now, shards, number) for each in nodes.values()],
            [shard_document(each if each.owner in nodes else replace(each, owner=None)) for each in shards[:number]],
        )


def _node(node: Node, owner: str | None, now: int, shards: Sequence[Shard], number: int) -> NodeDocument:
    figures = _figures(node.figures)
    return NodeDocument(
        node.owner,
        node.owner == owner,
        _state(node, figures, now),
        _instant(node.heard_at),
        _instant(node.until),
        [each.number for each in shards[:number] if each.owner == node.owner],
        [each.number for each in shards[number:] if each.owner == node.owner],
        figures,
    )


def _figures(given: Mapping[str, Any] | None) -> NodeFiguresDocument | None:
    # a node of another version may send unknown fields
    if given is None:
        return None
    try:
        recent = [{**each, "fired_at": instant(each["fired_at"])} for each in given.get("recent", ())]
        return convert({**given, "started_at": instant(given["started_at"]), "recent": recent}, NodeFiguresDocument)
    except (KeyError, TypeError, ValidationError):
        return None


def _state(node: Node, figures: NodeFiguresDocument | None, now: int) -> NodeState:
    if node.is_dead(now):
        return "gone"
    if node.heard_at is None or figures is None:
        return "well"
    return "silent" if now - node.heard_at > 1000 * _MISSED * figures.every_s else "well"


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else instant(ms)
