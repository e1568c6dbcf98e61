from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tickwheel.jobs.record import record

__all__ = [
    "BUCKETS",
    "EDGES_MS",
    "LANES_MAX",
    "MINUTE_MS",
    "OTHER_LANES",
    "QUARTER_MS",
    "LaneMinute",
    "Minute",
    "bucket_of",
    "busiest",
    "kept_from",
    "merged",
    "merged_lanes",
    "of_text",
    "quantile",
    "to_text",
    "total_of",
]

MINUTE_MS: Final = 60_000
QUARTER_MS: Final = 15 * MINUTE_MS
_MINUTES_KEPT_MS: Final = 4 * 60 * MINUTE_MS
_QUARTERS_KEPT_MS: Final = 48 * 60 * MINUTE_MS
BUCKETS: Final = 12
EDGES_MS: Final = tuple(4 << step for step in range(BUCKETS - 1))
"""Upper edges of the buckets of lateness, in ms: 4, 8, and so on to 4096. The last bucket has no edge."""
LANES_MAX: Final = 50
"""Maximum number of lanes that a `Minute` lists by name. The figures of the other lanes are added up."""
OTHER_LANES: Final = "(others)"
_BYTES_MAX: Final = 8_000
"""Maximum size of a stored `Minute`, in bytes. If names are long, it lists fewer lanes."""


@record
class LaneMinute:
    """
    The figures of one lane: the jobs of one handler, pull queue or receiver.

    Attributes:
        lane: The lane, such as "handler:mail"; "(others)" for the sum of all lanes after the 50 busiest.
        fired: Number of attempts that started and ended.
        overdue: Number of due jobs that waited in memory at the end of the minute.
        wait_ms: Total time that these attempts waited for a worker after their due times.
        took_ms: Total duration of the attempts.
        late_max_ms: Maximum lateness of a start.
        lateness: Number of starts in each of twelve buckets. The upper edges are 4 ms, 8 ms, and so on to 4096 ms; the
            last bucket has no upper edge.
    """

    lane: str
    fired: int = 0
    failed: int = 0
    dead: int = 0
    overdue: int = 0
    wait_ms: float = 0.0
    took_ms: float = 0.0
    late_max_ms: float = 0.0
    lateness: tuple[int, ...] = (0,) * BUCKETS


@record
class Minute:
    """
    The figures of one node for a minute, or for a quarter of an hour.

    Attributes:
        owner: The name of the node. A node has a new name after each start.
        at: Start of the minute or quarter, in ms since the epoch.
        span_ms: Length: 60,000 or 900,000.
        commit_ms: Total duration of the commits.
        commit_max_ms: Maximum duration of a commit, with an error of at most an eighth.
        lanes: The figures of each lane, busiest first.
    """

    owner: str
    at: int
    span_ms: int = MINUTE_MS
    commits: int = 0
    commit_ms: float = 0.0
    commit_max_ms: float = 0.0
    lanes: tuple[LaneMinute, ...] = ()


def to_text(minute: Minute) -> str:
    head = [minute.commits, round(minute.commit_ms, 1), round(minute.commit_max_ms, 1)]
    named = LANES_MAX
    while True:
        lanes = [_to_list(lane) for lane in busiest(minute.lanes, named)]
        text = json.dumps([*head, lanes], separators=(",", ":"))
        if len(text) <= _BYTES_MAX or not named:
            return text
        named = min(named - 1, named * _BYTES_MAX // len(text))


def of_text(owner: str, at: int, span_ms: int, text: str) -> Minute:
    commits, commit_ms, commit_max_ms, lanes = json.loads(text)
    return Minute(owner, at, span_ms, commits, commit_ms, commit_max_ms, tuple(map(_of_list, lanes)))


def _to_list(lane: LaneMinute) -> list[Any]:
    counts = list(lane.lateness)
    while counts and not counts[-1]:
        counts.pop()
    times = map(round, (lane.wait_ms, lane.took_ms, lane.late_max_ms))
    return [lane.lane, lane.fired, lane.failed, lane.dead, lane.overdue, *times, counts]


def _of_list(values: list[Any]) -> LaneMinute:
    lane, fired, failed, dead, overdue, wait_ms, took_ms, late_max_ms, counts = values
    lateness = (*counts, *(0,) * (BUCKETS - len(counts)))
    return LaneMinute(lane, fired, failed, dead, overdue, wait_ms, took_ms, late_max_ms, lateness)


def bucket_of(late_ms: float) -> int:
    return min((int(late_ms) >> 2).bit_length(), BUCKETS - 1) if late_ms > 0 else 0


def kept_from(now_ms: int) -> tuple[int, int]:
    minutes, quarters = now_ms - _MINUTES_KEPT_MS, now_ms - _QUARTERS_KEPT_MS
    return minutes // QUARTER_MS * QUARTER_MS, quarters // QUARTER_MS * QUARTER_MS


def merged(minutes: Iterable[Minute], at: int, span_ms: int, owner: str = "") -> Minute:
    commits, commit_ms, commit_max_ms, found = 0, 0.0, 0.0, list[LaneMinute]()
    end, last = -1, dict[str, Minute]()
    for minute in minutes:
        if minute.at > end:
            end = minute.at
            last.clear()
        if minute.at == end:
            last[minute.owner] = minute
        commits += minute.commits
        commit_ms += minute.commit_ms
        commit_max_ms = max(commit_max_ms, minute.commit_max_ms)
        found += minute.lanes
    overdue = Counter[str]()
    for minute in last.values():
        overdue.update({lane.lane: lane.overdue for lane in minute.lanes})
    return Minute(owner, at, span_ms, commits, commit_ms, commit_max_ms, merged_lanes(found, overdue))


def merged_lanes(lanes: Iterable[LaneMinute], overdue: Mapping[str, int]) -> tuple[LaneMinute, ...]:
    found: dict[str, list[LaneMinute]] = {}
    for lane in lanes:
        found.setdefault(lane.lane, []).append(lane)
    sums = [
        each[0]
        if len(each) == 1 and each[0].overdue == overdue.get(name, 0)
        else _sum(name, each, overdue.get(name, 0))
        for name, each in found.items()
    ]
    return busiest(sums, len(sums))


def busiest(lanes: Iterable[LaneMinute], number: int) -> tuple[LaneMinute, ...]:
    ranked = sorted(
        lanes, key=lambda lane: (lane.lane == OTHER_LANES, -lane.fired - lane.failed, -lane.overdue, lane.lane)
    )
    first = [lane for lane in ranked if lane.lane != OTHER_LANES][:number]
    others = ranked[len(first) :]
    overdue = sum(lane.overdue for lane in others)
    return (*first, _sum(OTHER_LANES, others, overdue)) if others else tuple(first)


def _sum(name: str, lanes: Iterable[LaneMinute], overdue: int) -> LaneMinute:
    each = list(lanes)
    return LaneMinute(
        name,
        sum(lane.fired for lane in each),
        sum(lane.failed for lane in each),
        sum(lane.dead for lane in each),
        overdue,
        sum(lane.wait_ms for lane in each),
        sum(lane.took_ms for lane in each),
        max(lane.late_max_ms for lane in each),
        tuple(map(sum, zip(*(lane.lateness for lane in each), strict=True))),
    )


def quantile(lateness: Sequence[int], late_max_ms: float, share: float) -> float:
    """
    Return the lateness, in ms, that a fraction *share* of all starts did not exceed; at most *late_max_ms*.

    *lateness* has the number of starts in each bucket. The result is the upper edge of a bucket.
    """
    rest = sum(lateness) * share
    for edge, count in zip((*EDGES_MS, late_max_ms), lateness, strict=True):
        rest -= count
        if count and rest <= 0:
            return min(float(edge), late_max_ms)
    return 0.0


def total_of(lanes: Iterable[LaneMinute]) -> LaneMinute:
    each = list(lanes)
    return _sum("", each, sum(lane.overdue for lane in each)) if each else LaneMinute("")
