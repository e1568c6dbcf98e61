"""
Converts wall-clock times of a zone to instants, even where clocks are set forward (a gap) or back (an overlap).

A cron line can be read in two ways, both long established:

* literal: the line fires whenever the wall clock shows a matching time. A time inside a gap never shows and is skipped;
  a time inside an overlap shows twice and fires twice. So `*/15 * * * *` keeps firing every quarter of an hour.
* once a day: a line whose minutes and hours are spelled out means "that time of each day". If the time is in a gap, the
  line fires at the gap's end; if in an overlap, at the first of the two times. So a nightly job is neither lost nor
  doubled. A gap may omit a whole day (Pacific/Apia, 30 December 2011). The job's misfire rule decides whether the runs
  of that day are made up for at the end of the gap, or left out.

"Once a day" is the rule of Debian's cron(8) for jobs "that run at a specific time". "Literal" is Debian's rule for all
other jobs, and the rule of robfig/cron for six fields. A schedule may state its own policy for gaps and for overlaps
instead. Instants here are whole seconds since the epoch.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol
from zoneinfo import ZoneInfo

__all__ = [
    "DstGap",
    "DstOverlap",
    "NextWall",
    "first_change",
    "instant_of",
    "next_by_policy",
    "next_literal",
    "next_once_a_day",
    "wall_of",
]


class DstGap(StrEnum):
    """
    The policy for times that the wall clock skips when it is set forward.
    """

    END = "end"
    """One run at the end of the gap replaces all runs in the gap."""
    SKIP = "skip"
    """Runs in the gap are left out."""


class DstOverlap(StrEnum):
    """
    The policy for times that the wall clock shows twice when it is set back.
    """

    FIRST = "first"
    """One run, when the clock shows the time for the first time."""
    SECOND = "second"
    """One run, when the clock shows the time for the second time."""
    BOTH = "both"
    """Two runs, one at each of the two times."""


class NextWall(Protocol):
    def __call__(self, wall: datetime, *, inclusive: bool) -> datetime | None: ...


_LOST_DAY_S = 43_200
"""Minimum length, in seconds, of a gap that omits a whole day, at the date line. Other gaps are two hours at most."""
_AHEAD_S = 50 * 366 * 86_400
"""Seconds that a search for the next run looks ahead: 50 years, as for a cron line."""
_STEP_S = 7 * 86_400
"""Step of the search for offset changes. It is a week, because no zone changes its offset twice in a week."""


def next_literal(next_wall: NextWall, zone: ZoneInfo, after: int) -> int | None:
    start, inclusive = after, False
    while True:
        wall = next_wall(wall_of(start, zone), inclusive=inclusive)
        if wall is None:
            return None
        instant = int(wall.replace(tzinfo=UTC).timestamp()) - _offset(start, zone)
        change = first_change(zone, start, instant)
        if change is None:
            return instant
        start, inclusive = change, True  # from here on the offset differs: search again


def next_once_a_day(next_wall: NextWall, zone: ZoneInfo, after: int, *, makes_up: bool = True) -> int | None:
    """
    Return the first matching instant later than *after*, by the rule "once a day".

    If *makes_up* is False, times on a day that the calendar of *zone* omits are left out.
    """
    wall = next_wall(wall_of(after, zone), inclusive=False)
    while wall is not None:
        instant = instant_of(wall, zone)
        if instant > after and (makes_up or not _is_of_lost_day(wall, zone)):
            return instant
        wall = next_wall(wall, inclusive=False)  # the second pass of an overlap: the first has fired
    return None


def next_by_policy(
    next_wall: NextWall, zone: ZoneInfo, after: int, gap: DstGap, overlap: DstOverlap, *, makes_up: bool = True
) -> int | None:
    shown = _next_shown(next_wall, zone, after, overlap)
    if gap is DstGap.SKIP:
        return shown
    made_up = _next_made_up(next_wall, zone, after, after + _AHEAD_S if shown is None else shown, makes_up=makes_up)
    return shown if made_up is None else made_up


def _next_shown(next_wall: NextWall, zone: ZoneInfo, after: int, overlap: DstOverlap) -> int | None:
    """
    Return the first matching instant later than *after*. *overlap* is the policy for times shown twice.
    """
    while (found := next_literal(next_wall, zone, after)) is not None and overlap is not DstOverlap.BOTH:
        wall = wall_of(found, zone)
        first, second = (int(wall.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
        if first == second or found == (first if overlap is DstOverlap.FIRST else second):
            return found
        change = first_change(zone, first, second) or second
        after = change - 1 if found == first else change + (second - first) - 1  # the end of this pass
    return found


def _next_made_up(next_wall: NextWall, zone: ZoneInfo, after: int, until: int, *, makes_up: bool) -> int | None:
    change = after
    while (found := first_change(zone, change, until)) is not None:
        change = found
        length = _offset(change, zone) - _offset(change - 1, zone)
        if length > 0 and (makes_up or length < _LOST_DAY_S):
            end = wall_of(change, zone)
            wall = next_wall(end - timedelta(seconds=length), inclusive=True)
            if wall is not None and wall < end:
                return change
    return None


def first_change(zone: ZoneInfo, start: int, end: int) -> int | None:
    """
    Return the first second in (*start*, *end*] at which the zone's offset is not the same as at *start*, or None.
    """
    offset = _offset(start, zone)
    low = start
    while low < end:
        high = min(low + _STEP_S, end)
        if _offset(high, zone) != offset:
            break
        low = high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(middle, zone) == offset:
            low = middle
        else:
            high = middle
    return high


def instant_of(wall: datetime, zone: ZoneInfo) -> int:
    first = int(wall.replace(tzinfo=zone, fold=0).timestamp())
    if wall_of(first, zone) == wall:
        return first
    second = int(wall.replace(tzinfo=zone, fold=1).timestamp())  # in a gap, fold=1 uses the offset after the gap
    return first_change(zone, second, first) or first


def _is_of_lost_day(wall: datetime, zone: ZoneInfo) -> bool:
    after, before = (wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    return after - before >= _LOST_DAY_S


def wall_of(instant: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0)


def _offset(instant: int, zone: ZoneInfo) -> int:
    return int((datetime.fromtimestamp(instant, zone).utcoffset() or timedelta()).total_seconds())
