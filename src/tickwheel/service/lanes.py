from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.minutes import MINUTE_MS, LaneMinute, Minute, merged, quantile
from tickwheel.jobs.model import Pause
from tickwheel.jobs.pause import scope_over
from tickwheel.scheduler import AsyncScheduler, Node, WaitReason
from tickwheel.service.documents import Moment, PauseDocument, instant, pause_document
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request
from tickwheel.service.replies import document_reply

__all__ = ["Lanes", "LanesDocument", "rows_of"]

_SPAN_S: Final = 15 * 60
_FRESH_S: Final = 5.0
_ROWS_MAX: Final = 500
_NAMED: Final = ("handler", "pull")
"""Targets whose handlers can be paused one by one. Any other target can only be paused as a whole."""
_WORST: Final = ("open", "half-open", "full", "closed")
_STUCK: Final = {WaitReason.NO_WORKER, WaitReason.NO_HANDLER}
_WORDS: Final = {
    WaitReason.RATE: "the rate of its handler is used up",
    WaitReason.CONCURRENCY: "as many attempts run as its handler allows",
    WaitReason.BUSY: "no thread is free for it",
    WaitReason.NO_ROOM: "its node has no room in memory for more jobs",
    WaitReason.PAUSED: "it is paused",
}


class ReceiverDocument(Struct, frozen=True):
    """
    The worst state of a receiver on any node, and the reason.

    "closed" is normal: the receiver gets messages. "open" means that the receiver failed several times in a row and
    gets no messages for a while. "half-open" means that one attempt tests it. "full" means that the receiver works but
    has no room, or limits its messages per second.
    """

    state: str
    reason: str


class LaneRowDocument(Struct, frozen=True):
    """
    One lane of all nodes: the jobs of a handler, a pull queue or a receiver.

    `waiting` is the number of due jobs that have to wait; the first of them was due at `oldest_due_at`. `reason` and
    `text` say why they wait. If `is_full`, more jobs wait in the store. If `is_stuck`, no node or worker can run the
    lane's jobs. `running` is the number of running attempts on all nodes, and `limit` is its maximum (null: no limit).
    The figures of firings are null until they cover a full minute. `workers` is the number of workers that ask for jobs
    of a queue, and `nodes` the number of nodes that have the handler. `scope` is the scope with which the lane can be
    paused. `is_drained` is true if the lane is paused and no attempt runs.
    """

    lane: str
    waiting: int
    is_full: bool
    running: int
    limit: int | None
    oldest_due_at: Moment | None
    fired: int | None
    failed: int | None
    p50_ms: float | None
    p99_ms: float | None
    workers: int | None
    nodes: int | None
    receiver: ReceiverDocument | None
    reason: str | None
    text: str | None
    is_stuck: bool
    scope: str | None
    pause: PauseDocument | None
    is_drained: bool


class LanesDocument(Struct, frozen=True):
    """
    The lanes of all nodes. Stuck lanes come first, then the lanes whose jobs have waited longest.

    Figures of firings cover the last `span_s` seconds, in whole minutes.
    """

    now: Moment
    span_s: int
    lanes: list[LaneRowDocument]


@dataclass(slots=True)
class _Lane:
    waiting: int = 0
    is_full: bool = False
    running: int = 0
    limits: list[int | None] = field(default_factory=list)
    due: list[int] = field(default_factory=list)
    reasons: list[WaitReason] = field(default_factory=list)
    workers: int = 0
    nodes: int = 0
    receivers: list[tuple[str, str]] = field(default_factory=list)
    fired: LaneMinute | None = None


class Lanes:
    def __init__(self, scheduler: AsyncScheduler, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._lock = asyncio.Lock()
        self._minutes: Sequence[Minute] = ()
        self._read_at = float("-inf")

    async def list(self, _call: Request) -> Reply:
        """
        Return the lanes of all nodes: waiting and running jobs, figures of firings, workers, receivers and pauses.
        """
        nodes = await self._scheduler.nodes()
        stats = await self._figures.scheduler_stats()
        pauses = await self._scheduler.paused_scopes()
        now = time.time() + stats["offset_ms"] / 1000
        async with self._lock:
            if time.monotonic() - self._read_at > _FRESH_S:
                self._minutes = await self._scheduler.minutes(now - _SPAN_S)
                self._read_at = time.monotonic()
        rows = rows_of(nodes, self._minutes, stats["waiting_for_handler"], pauses, _counts(stats), now=int(now * 1000))
        return document_reply(LanesDocument(instant(int(now * 1000)), _span_s(self._minutes), rows))


def _counts(stats: Mapping[str, Any]) -> dict[str, int]:
    return {each["scope"]: each["count"] for each in stats["paused_scopes"]}


def _span_s(minutes: Sequence[Minute]) -> int:
    first = min((each.at for each in minutes), default=0)
    return max(60, (max((each.at for each in minutes), default=0) + MINUTE_MS - first) // 1000)


def rows_of(
    nodes: Iterable[Node],
    minutes: Iterable[Minute],
    aside: Iterable[Mapping[str, Any]],
    pauses: Iterable[Pause],
    paused_due: Mapping[str, int],
    *,
    now: int,
) -> list[LaneRowDocument]:
    """
    Return the rows of all lanes at the store's time *now*, in ms.

    *aside* has the jobs that no node can run. *paused_due* is the number of due jobs in each paused scope.
    """
    lanes: dict[str, _Lane] = {}
    for node in nodes:
        if not node.is_dead(now):
            _add_report(lanes, node.figures or {})
    for each in aside:
        lane = lanes.setdefault(lane_of(each["target"], each["handler"]), _Lane())
        lane.waiting += each["count"]
        lane.due.append(each["since"])
        lane.reasons.insert(0, WaitReason.NO_HANDLER)
    for counted in merged(minutes, 0, 0).lanes:
        lanes.setdefault(counted.lane, _Lane()).fired = counted
    paused = {pause.scope: pause for pause in pauses}
    for scope in paused:
        if ":" in scope:
            lanes.setdefault(scope, _Lane()).waiting += paused_due.get(scope, 0)
    rows = [_row(name, lane, paused) for name, lane in lanes.items()]
    return sorted(rows, key=_rank)[:_ROWS_MAX]


def _add_report(lanes: dict[str, _Lane], figures: Mapping[str, Any]) -> None:
    # a node of another version may send a report without some of these fields
    queues: Mapping[str, Any] = figures.get("queues", {})
    for state in figures.get("lanes", ()):
        lane = lanes.setdefault(state["lane"], _Lane())
        lane.waiting += state["waiting"]
        lane.is_full |= state["is_full"]
        lane.running += 0 if state["lane"].removeprefix("pull:") in queues else state["running"]
        lane.limits.append(state["concurrency"])
        if state["oldest_due_at"] is not None:
            lane.due.append(state["oldest_due_at"])
        if state["reason"] is not None:
            lane.reasons.append(WaitReason(state["reason"]))
    for name, queue in queues.items():
        lane = lanes.setdefault(f"pull:{name}", _Lane())
        lane.waiting += queue["ready"]
        lane.running += queue["leased"]
        lane.workers += queue["workers"]
    for name in figures.get("handlers", ()):
        lanes.setdefault(f"handler:{name}", _Lane()).nodes += 1
    for each in figures.get("receivers", ()):
        whole = f"{each['target']}:"
        name = whole if whole in lanes else lane_of(each["target"], each["receiver"])
        lanes.setdefault(name, _Lane()).receivers.append((each["state"], each["reason"]))


def _row(name: str, lane: _Lane, paused: Mapping[str, Pause]) -> LaneRowDocument:
    target, _, handler = name.partition(":")
    is_named = target in _NAMED
    over = scope_over(target, handler if is_named else "", paused)
    scope = name if is_named else None if target in {"lane", "(others)"} else target
    reason = WaitReason.PAUSED if over is not None else _reason(target, lane)
    is_stuck = reason in _STUCK and lane.waiting > 0
    counted = lane.fired
    limits = [limit for limit in lane.limits if limit is not None]
    late = (None, None) if counted is None or not counted.fired else _quantiles(counted)
    return LaneRowDocument(
        lane=name,
        waiting=lane.waiting,
        is_full=lane.is_full,
        running=lane.running,
        limit=sum(limits) if limits and len(limits) == len(lane.limits) else None,
        oldest_due_at=instant(min(lane.due)) if lane.due else None,
        fired=None if counted is None else counted.fired,
        failed=None if counted is None else counted.failed,
        p50_ms=late[0],
        p99_ms=late[1],
        workers=lane.workers if target == "pull" else None,
        nodes=lane.nodes if target == "handler" else None,
        receiver=min((ReceiverDocument(*each) for each in lane.receivers), key=_trouble, default=None),
        reason=None if reason is None else reason.value,
        text=None if reason is None else _text(reason, target, handler),
        is_stuck=is_stuck,
        scope=scope,
        pause=None if over is None else pause_document(paused[over]),
        is_drained=over is not None and not lane.running,
    )


def _reason(target: str, lane: _Lane) -> WaitReason | None:
    # a queue has a worker if a worker asks for jobs or holds a lease
    if not lane.waiting:
        return None
    if target == "pull" and not lane.workers and not lane.running:
        return WaitReason.NO_WORKER
    return next((each for each in lane.reasons if target != "pull" or each is not WaitReason.NO_WORKER), None)


def _text(reason: WaitReason, target: str, handler: str) -> str:
    if reason is WaitReason.NO_WORKER:
        return f"no worker pulls {handler}"
    if reason is WaitReason.NO_HANDLER:
        return f"no node has the handler {handler}" if target == "handler" else f"no node can send to {target}"
    return _WORDS.get(reason, reason.value.replace("_", " "))


def _quantiles(counted: LaneMinute) -> tuple[float, float]:
    return quantile(counted.lateness, counted.late_max_ms, 0.5), quantile(counted.lateness, counted.late_max_ms, 0.99)


def _trouble(receiver: ReceiverDocument) -> int:
    return _WORST.index(receiver.state) if receiver.state in _WORST else len(_WORST)


def _rank(row: LaneRowDocument) -> tuple[bool, float, int, int, str]:
    oldest = float("inf") if row.oldest_due_at is None or not row.waiting else row.oldest_due_at.timestamp()
    return not row.is_stuck, oldest, -row.waiting, -(row.fired or 0), row.lane
