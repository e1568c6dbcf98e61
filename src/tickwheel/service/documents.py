"""
JSON documents that the service returns. Instants are RFC 3339 in UTC. The name of a duration field ends in its unit.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from msgspec import Meta, Raw, Struct

from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.model import Answer, Job, Pause, RetryPolicy
from tickwheel.scheduler import Explanation, LaneState, Shard
from tickwheel.service.firings import WORDS
from tickwheel.service.rules import Rule

__all__ = [
    "AnswerDocument",
    "BatchDocument",
    "BulkDocument",
    "CountersDocument",
    "CountsDocument",
    "ExplanationDocument",
    "FiringDocument",
    "FiringsDocument",
    "ForecastDocument",
    "JobDocument",
    "LaneDocument",
    "Moment",
    "PageDocument",
    "PauseDocument",
    "ResultDocument",
    "ShardDocument",
    "ShardsDocument",
    "StripDocument",
    "WheelDocument",
    "Written",
    "answer_document",
    "explanation_document",
    "firing_document",
    "instant",
    "job_document",
    "pause_document",
    "shard_document",
    "wheel_document",
]


Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]
"""An instant in an answer. The schema declares it as a date-time for clients."""

Written: TypeAlias = Literal[
    "created",
    "replaced",
    "kept",
    "unchanged",
    "changed",
    "restarted",
    "dead",
    "moved",
    "cancelled",
    "replayed",
    "paused",
    "resumed",
    "stopping",
]
"""Outcomes of accepted writes. A refused write is answered with a problem instead."""


class RetryDocument(Struct, frozen=True):
    """
    A retry policy as it is stored.
    """

    attempts: int
    kind: str
    base_s: float
    max_s: float
    jitter: float
    waits_s: tuple[float, ...]


class PauseDocument(Struct, frozen=True):
    """
    A pause: its start, author and reason. The pause of a whole scope (such as a handler) also names the scope.
    """

    at: Moment
    by: str
    note: str
    scope: str = ""


class JobDocument(Struct, frozen=True):
    """
    A job as it is stored.
    """

    key: str
    generation: int
    state: Literal["pending", "running", "dead"]
    due_at: Moment
    target: str
    handler: str
    payload: Raw
    attempt: int
    retry: RetryDocument
    expires_at: Moment | None
    recurrence: Rule | None
    error: str | None
    trace: str | None
    first_set_at: Moment
    lacks_handler: bool = False
    awaits_worker: bool = False
    pause: PauseDocument | None = None
    manifest: str | None = None
    sent_as: str | None = None
    raised_in: str | None = None


Reason: TypeAlias = Literal[
    "not_due",
    "retry",
    "paused",
    "no_handler",
    "rate",
    "concurrency",
    "no_worker",
    "busy",
    "previous_run",
    "no_room",
    "starting",
    "no_owner",
    "other_node",
    "lease_not_trusted",
    "clock_set",
    "store_unreachable",
    "running",
    "dead",
]
"""The reason why a job has not run yet."""


class LaneDocument(Struct, frozen=True):
    """
    A lane (the jobs of one handler, pull queue or receiver) in the process that fires its jobs.

    `staged` is the number of jobs in memory that have not begun. `waiting` is the number of staged jobs that are due
    but held back, and `reason` says why. `running` is the number of running attempts. If `is_full`, the lane has used
    up its share of memory, and further jobs of the lane wait in the store.
    """

    lane: str
    reason: Reason | None
    staged: int
    waiting: int
    running: int
    oldest_due_at: Moment | None
    is_full: bool
    concurrency: int | None
    rate: float | None


class ExplanationDocument(Struct, frozen=True):
    """
    The reason why a job has not run yet, as a code and in words, and the remedy.

    `until` is the time, if known, at which the reason ends without your action. `owner` is the process that fires the
    job, and `state` is the state of the job's lane in that process.
    """

    key: str
    reason: Reason
    lane: str
    text: str
    remedy: str
    until: Moment | None
    owner: str | None
    state: LaneDocument | None


class AnswerDocument(Struct, frozen=True):
    """
    The outcome of a write, and the job after the write. A cancelled job is shown in its last state.

    `kept` means that nothing changed, because a job existed, or because the job to resume was not paused. `stopping`
    means that the job is running and was asked to stop.
    """

    outcome: Written
    job: JobDocument | None


class PageDocument(Struct, frozen=True):
    """
    One page of jobs in the order of their keys. Pass `cursor` to get the next page; it is null on the last page.
    """

    jobs: list[JobDocument]
    cursor: str | None


class ProgressDocument(Struct, frozen=True):
    """
    The progress of a running attempt, from 0 to 1, and a note about it in words. The handler reported both.
    """

    fraction: float
    note: str


class FiringDocument(Struct, frozen=True):
    """
    One firing, and its outcome: running, succeeded, failed, snoozed, died, stopped or superseded.

    `took_ms` is null while the firing runs, and usually also later if the history does not record the firing. `by` is
    the node. `progress` is null after the firing has ended, or if the handler reports no progress.
    """

    fire_id: str
    key: str
    generation: int
    attempt: int
    target: str
    handler: str
    due_at: Moment
    fired_at: Moment
    lateness_ms: float
    outcome: str
    error: str | None
    took_ms: float | None
    by: str
    progress: ProgressDocument | None


class FiringsDocument(Struct, frozen=True):
    """
    Firings, in the order of their last change.
    """

    firings: list[FiringDocument]


class ResultDocument(Struct, frozen=True, omit_defaults=True):
    """
    The outcome of one item of a batch, or its problem.
    """

    key: str
    status: int
    outcome: Literal[Written, "refused"]
    generation: int | None = None
    due_at: Moment | None = None
    problem: dict[str, Any] | None = None
    job: JobDocument | None = None


class BatchDocument(Struct, frozen=True):
    """
    The results of a batch, in the order of its items.
    """

    results: list[ResultDocument]


class BulkChangeDocument(Struct, frozen=True):
    """
    A job that a bulk change affected: its generation after the change, and its due time before the change.
    """

    key: str
    generation: int
    was_due_at: Moment


class BulkDocument(Struct, frozen=True):
    """
    The numbers of jobs that matched, were changed, and were refused.

    A job is refused if it has begun, or if another client changed it after it was selected. `stopping` is the number of
    changed jobs that were running and were asked to stop. `changes` lists the changed jobs, if requested. Pass `cursor`
    in the next request; it is null at the end. `start` is the cursor of the first request. After a dry run, pass
    `start` to make the changes. Repeated requests with the same `start` do not move, run or replay a job twice.
    """

    matched: int
    changed: int
    refused: int
    cursor: str | None
    start: str
    stopping: int
    changes: list[BulkChangeDocument]


class BackfillDocument(Struct, frozen=True):
    """
    The number of runs in the range (at most the limit), and the number of jobs that were set for them.

    `next_at` is the first run past the limit, or null. Pass it as `since` in the next request.
    """

    runs: int
    created: int
    next_at: Moment | None


class StripDocument(Struct, frozen=True):
    """
    The number of pending jobs due in each step from `since` on.
    """

    name: str
    since: Moment
    step_s: int
    counts: list[int]


class CountersDocument(Struct, frozen=True):
    """
    Counters of the native core, by name; null if this process fires no jobs.
    """

    counts: dict[str, Any] | None


class LevelDocument(Struct, frozen=True):
    """
    One level of the timer wheel: the span of each of its 64 slots, and the number of timers in each occupied slot.

    `hand` is the slot of the current instant, and `into_ns` is the time since this slot began.
    """

    level: int
    slot_ns: int
    hand: int
    into_ns: int
    counts: dict[int, int]


class WheelDocument(Struct, frozen=True):
    """
    The timer wheel of this process. It has fewer timers than jobs, because jobs with the same due time share a timer.
    """

    timers: int
    slot_max: int
    cascades: int
    wakeups: int
    bytes: int
    levels: list[LevelDocument]


class ForecastDocument(Struct, frozen=True):
    """
    The number of jobs that fall due in the next minute, hour and day, and the due time of the next job.
    """

    next_due_at: Moment | None
    strips: list[StripDocument]


class CountsDocument(Struct, frozen=True):
    """
    The number of pending jobs due in each step from `since` on.
    """

    counts: list[int]


class ShardDocument(Struct, frozen=True):
    """
    A shard (a part of the store), and the process that fires its jobs. `owner` is null if no process fires them.

    `epoch` grows with every change of owner. The lease ends at `until` unless it is renewed. If `until` is null, the
    lease has no end.
    """

    shard: int
    owner: str | None
    epoch: int
    until: Moment | None


class ShardsDocument(Struct, frozen=True):
    """
    All shards of the store. `owner` and `epoch` describe the process that answers; they are null if it fires no jobs.
    """

    store: str
    owner: str | None
    epoch: int | None
    shards: list[ShardDocument]


@lru_cache(1024)  # the jobs of a batch often have the same delay, and so the same instant
def instant(ms: int) -> datetime:
    """
    Return *ms* since the epoch as an aware datetime. Exact until the year 2242, after which no job can be due.
    """
    return datetime.fromtimestamp(ms / 1000, UTC)


def job_document(job: Job) -> JobDocument:
    values = [*_OF_JOB(job)]
    for index, shown in _SHOWN:
        value = values[index]
        values[index] = None if value is None else shown(value)
    return JobDocument(*values)  # positional, because keyword arguments would take most of the time


def lane_document(state: LaneState) -> LaneDocument:
    oldest = state.oldest_due_at
    return LaneDocument(
        state.lane,
        cast("Reason | None", state.reason and state.reason.value),
        state.staged,
        state.waiting,
        state.running,
        None if oldest is None else instant(oldest),
        state.is_full,
        state.concurrency,
        state.rate,
    )


def explanation_document(found: Explanation) -> ExplanationDocument:
    return ExplanationDocument(
        found.key,
        found.reason.value,
        found.lane,
        found.text,
        found.remedy,
        None if found.until is None else instant(found.until),
        found.owner,
        None if found.state is None else lane_document(found.state),
    )


def pause_document(pause: Pause) -> PauseDocument:
    return PauseDocument(instant(pause.at), pause.by, pause.note, pause.scope)


def shard_document(shard: Shard) -> ShardDocument:
    return ShardDocument(shard.number, shard.owner, shard.epoch, None if shard.until is None else instant(shard.until))


@lru_cache(256)
def _retry_document(retry: RetryPolicy) -> RetryDocument:
    waits_s = tuple(wait / 1000 for wait in retry.waits_ms)
    return RetryDocument(retry.attempts, retry.kind, retry.base_ms / 1000, retry.max_ms / 1000, retry.jitter, waits_s)


def answer_document(answer: Answer) -> AnswerDocument:
    outcome = cast("Written", answer.outcome.value)
    return AnswerDocument(outcome, None if answer.job is None else job_document(answer.job))


def firing_document(firing: FiringRecord) -> FiringDocument:
    return FiringDocument(
        fire_id=f"{firing.key}/{firing.generation}/{firing.attempt}",
        key=firing.key,
        generation=firing.generation,
        attempt=firing.attempt,
        target=firing.target,
        handler=firing.handler,
        due_at=instant(firing.due_at),
        fired_at=instant(int(firing.fired_at)),
        lateness_ms=round(firing.fired_at - firing.due_at, 3),
        outcome=WORDS.get(firing.outcome, firing.outcome),
        error=firing.error,
        took_ms=None if firing.took_ms is None else round(firing.took_ms, 3),
        by=firing.by,
        progress=firing.progress and ProgressDocument(*firing.progress),
    )


def wheel_document(wheel: dict[str, Any], now_ns: int) -> WheelDocument:
    levels = [
        LevelDocument(level, slot_ns, now_ns // slot_ns % 64, now_ns % slot_ns, counts)
        for level, (slot_ns, _hand, counts) in enumerate(wheel["levels"])
    ]
    slot_max = max((count for level in levels for count in level.counts.values()), default=0)
    return WheelDocument(wheel["pending"], slot_max, wheel["cascades"], wheel["wakeups"], wheel["bytes"], levels)


_OF_JOB: Final = attrgetter(*JobDocument.__struct_fields__)
_FORMS: Final[dict[str, Callable[[Any], Any]]] = {
    "state": attrgetter("value"),
    "due_at": instant,
    "payload": Raw,
    "retry": _retry_document,
    "expires_at": instant,
    "recurrence": lambda text: Raw(text.encode()),
    "first_set_at": instant,
    "pause": pause_document,
}
"""Converters for the fields of a job whose form in a document differs from the form in `Job`."""
_SHOWN: Final = [(JobDocument.__struct_fields__.index(name), shown) for name, shown in _FORMS.items()]
