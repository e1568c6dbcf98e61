from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from tickwheel.observe.prometheus import LATENESS_EDGES_MS, buckets
from tickwheel.service.documents import LaneDocument, Moment, instant

__all__ = ["StatsDocument", "stats_document"]

_UNTOLD: Final = frozenset({"times", "sizes", "lateness", "levels"})


class TracedDocument(TypedDict):
    """
    A traced firing: its lateness, and the W3C traceparent of its span.
    """

    lateness_ms: float
    fired_at: Moment
    trace: str


class LatenessDocument(TypedDict):
    """
    The lateness of this process's firings, as a histogram. Each bucket has its upper edge (null: none) and its count.

    `traces` has the last traced firing for each range of lateness, such as 1,024 to 2,047 microseconds.
    """

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    sum_ms: float
    histogram: list[tuple[float | None, int]]
    traces: list[TracedDocument]


class AsideDocument(TypedDict):
    """
    The number of jobs that wait for a node with their handler, and the due time of the first job.
    """

    target: str
    handler: str
    count: int
    since: Moment


class ScopeDocument(TypedDict):
    """
    A paused scope (a handler, a queue, a target, or all jobs), and the number of due jobs that wait.

    `at` is the start of the pause, `by` its author, and `note` the reason.
    """

    scope: str
    at: Moment
    by: str
    note: str
    count: int


class LeakedDocument(TypedDict):
    """
    The number of attempts of one handler that still run after their timeouts, in a thread or on the event loop.
    """

    target: str
    handler: str
    executor: str
    count: int


class FullLaneDocument(TypedDict):
    """
    A handler or receiver that has used up its share of memory: the number of its jobs in memory, and why they wait.
    """

    lane: str
    staged: int
    reason: str


class ResultsDocument(TypedDict):
    """
    The number of firings of one target by outcome.
    """

    succeeded: int
    retried: int
    snoozed: int
    dead_total: int
    expired: int
    given_back: int
    stopped: int


class HandlerResultsDocument(ResultsDocument):
    """
    The number of firings of one handler or pull queue, by outcome.

    The `handler` is "" for targets whose handlers are addresses.
    """

    target: str
    handler: str


class QueueDocument(TypedDict):
    """
    A pull queue: the due jobs that wait for a worker, the firings that are ready or leased, and the waiting workers.
    """

    waiting: int
    oldest_due_at: Moment | None
    ready: int
    leased: int
    workers: int


class CommitDocument(TypedDict):
    """
    The commits to the store: their numbers of writes, and their durations.
    """

    writes: int
    mean_size: float
    mean_ms: float
    largest: int
    last_size: int
    last_ms: float
    retries: int
    failures: int
    waiting: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class RenewalsDocument(TypedDict):
    """
    The renewals of leases, and the time for which this process may fire without another renewal (null: no limit).

    `silent_s` is the number of seconds since the store last answered a renewal (null: no lease needs renewal).
    """

    renewals: int
    failures: int
    trusted_s: float | None
    silent_s: float | None


class NearDocument(TypedDict):
    """
    The counters of the timer wheel. `wakeups` and `notices` count wake-ups of the thread that advances the wheel.
    """

    pending: int
    sets: int
    moves: int
    cancels: int
    fires: int
    cascades: int
    refiles: int
    sorted_by_level: list[int]
    cascaded_by_level: list[int]
    bytes: int
    wakeups: int
    notices: int


class StatsDocument(TypedDict):
    """
    Counts of the store (pending, running, dead, waiting_for_handler, next_due_at, shards_all) and of this process.

    `targets` has the reports of the targets. Webhooks, brokers and queues report each receiver whose last attempt
    failed: its state ("closed", "open", "half-open" or "full"), the number of failures, the seconds until the next
    attempt, and the reason.
    """

    now: Moment
    changes: int
    pending: int
    running: int
    dead: int
    fired: int
    succeeded: int
    failed: int
    retried: int
    snoozed: int
    expired: int
    dead_total: int
    given_back: int
    stopped: int
    refused: int
    staged: int
    in_memory: int
    waiting: int
    in_flight: int
    lateness: LatenessDocument
    by_target: dict[str, ResultsDocument]
    by_handler: list[HandlerResultsDocument]
    targets: dict[str, Any]
    pull: dict[str, QueueDocument]
    paused: int
    paused_scopes: list[ScopeDocument]
    waiting_for_handler: list[AsideDocument]
    leaked: list[LeakedDocument]
    full_lanes: list[FullLaneDocument]
    lanes: list[LaneDocument]
    commits: int
    commit: CommitDocument
    leases: RenewalsDocument | None
    wheel: NearDocument | None
    owner: str | None
    epoch: int | None
    shards: list[int]
    tails: list[int]
    shards_all: int
    store: str
    loss_window: str
    offset_ms: float
    next_due_at: Moment | None


def stats_document(stats: Mapping[str, Any]) -> dict[str, Any]:
    """
    Convert *stats* to a document with the current time, the number of writes, and a coarser lateness histogram.
    """
    lateness, commit, wheel = stats["lateness"], stats["commit"], stats["wheel"]
    times = {f"{name}_ms": commit["times"][f"{name}_ms"] for name in ("p50", "p99", "max")}
    pull = {name: each | {"oldest_due_at": _instant(each["oldest_due_at"])} for name, each in stats["pull"].items()}
    return {
        "now": datetime.now(UTC),
        "changes": commit["writes"],
        **stats,
        "lateness": lateness
        | {
            "histogram": buckets(lateness["histogram"], LATENESS_EDGES_MS),
            "traces": [each | {"fired_at": instant(int(each["fired_at"]))} for each in lateness["traces"]],
        },
        "pull": pull,
        "lanes": [each | {"oldest_due_at": _instant(each["oldest_due_at"])} for each in stats["lanes"]],
        "waiting_for_handler": [each | {"since": instant(each["since"])} for each in stats["waiting_for_handler"]],
        "paused_scopes": [each | {"at": instant(each["at"])} for each in stats["paused_scopes"]],
        "commit": {name: value for name, value in commit.items() if name not in _UNTOLD} | times,
        "wheel": wheel and {name: value for name, value in wheel.items() if name not in _UNTOLD},
        "next_due_at": _instant(stats["next_due_at"]),
    }


def _instant(ms: int | None) -> datetime | None:
    return None if ms is None else instant(ms)
