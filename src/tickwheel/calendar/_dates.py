"""
Every N days, weeks or months, at a time of the wall clock.

    every="3d", time="02:00"         each third day
    every="2 weeks", time="9:30"     each second week, on the weekday of the first run
    every="1 month", time="00:00"    each month, on the day of the first run, or on the last day of a shorter month

Weeks are 7 days, and years 12 months. If the zone's clock skips or repeats the time, the rule "once a day" of `_zones`
applies.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple

from tickwheel.calendar import _zones
from tickwheel.calendar._zones import DstGap, DstOverlap
from tickwheel.calendar.zone import zone_data, zone_of
from tickwheel.errors import RecurrenceError

__all__ = ["Dates", "Step", "time_of"]

_DAYS_MAX: Final = 36_525
_MONTHS_MAX: Final = 1_200
_LAST_YEAR: Final = 9_900
_DAY: Final = timedelta(days=1)
_FIRST: Final = date(1, 1, 2)
"""The first allowed date of a run. Zone offsets of up to a day then stay within the calendar."""
_STEP: Final = re.compile(r" *([0-9]{1,9}) *(d|days?|w|weeks?|mo|months?|y|years?) *", re.IGNORECASE)
_ISO: Final = re.compile(r"P([0-9]{1,9})([DWMY])")
_TIME: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_UNITS: Final = {"d": (1, 0), "w": (7, 0), "m": (0, 1), "y": (0, 12)}
_TIME_REMEDY: Final = "pass a time of the day such as '02:00' or '23:59:30'"


class Step(NamedTuple):
    """
    A number of days, or a number of months. One of the two is 0.
    """

    days: int
    months: int

    @classmethod
    def of(cls, text: str) -> Step | None:
        """
        Parse a step such as `3d`, `2 weeks`, `1 month` or `P1M`; None for other texts.
        """
        found = _STEP.fullmatch(text) or _ISO.fullmatch(text)
        if found is None:
            return None
        count, (days, months) = int(found[1]), _UNITS[found[2][0].lower()]
        return cls(count * days, count * months)

    def checked(self, every: object) -> Step:
        """
        Return the step if it is within the bounds; if not, raise a RecurrenceError that shows *every*.
        """
        if self.days + self.months <= 0 or self.days > _DAYS_MAX or self.months > _MONTHS_MAX:
            raise RecurrenceError("every", every, "with time= it is at least a day or a month, and at most 100 years")
        return self

    def __str__(self) -> str:
        if self.months:
            return f"{self.months} month{'s' if self.months > 1 else ''}"
        return f"{self.days}d"


@dataclass(frozen=True)
class Dates:
    """
    The instants at which the clock of a zone shows a time of day, every N days or months after an anchor.

    Attributes:
        step: The distance between two dates.
        time: The time of day, in whole seconds.
        anchor_on: The date from which steps are counted. If a month lacks this day, the run is on its last day.
        dst_gap: Policy for a time that the clock skips; None for a run at the end of the gap.
        dst_overlap: Policy for a time that the clock shows twice; None for a run when it is shown first.
    """

    step: Step
    time: dt.time
    anchor_on: date
    tz: str = "UTC"
    dst_gap: DstGap | None = None
    dst_overlap: DstOverlap | None = None

    @classmethod
    def beginning(
        cls, start: int, step: Step, at: dt.time, tz: str, *, gap: DstGap | None, overlap: DstOverlap | None
    ) -> Dates:
        """
        Return the series whose first run is at the first time of day *at* that is not before *start* (epoch ms).

        An unknown zone raises a RecurrenceError.
        """
        daily = cls(Step(1, 0), at, _FIRST, tz, gap, overlap)
        first = daily.next(start - 1)
        return replace(daily, step=step, anchor_on=daily.date_of(start if first is None else first))

    @property
    def length(self) -> str:
        """
        The distance between two dates, in the form that callers write.
        """
        return str(self.step)

    @cached_property
    def starts_at(self) -> int:
        """
        The instant of the anchor, in ms since the epoch.
        """
        return self._instant(self.anchor_on)

    def next(self, after: int, *, makes_up: bool = True) -> int | None:
        """
        Return the first instant after *after*, or None at the end of the calendar. Instants are in ms since the epoch.

        The result may be before the anchor, because the anchor only determines which dates match. If the zone's
        calendar omits a day, and *makes_up* is True, the run of that day moves to the end of the omitted day.
        """
        zone, start = zone_of(self.tz), after // 1000
        try:
            if self.dst_gap is not None or self.dst_overlap is not None:
                found = _zones.next_by_policy(self._next_wall, zone, start, *self._policies, makes_up=makes_up)
            else:
                found = _zones.next_once_a_day(self._next_wall, zone, start, makes_up=makes_up)
        except (OverflowError, ValueError):  # past the year 9999
            return None
        return None if found is None else found * 1000

    def previous(self, instant: int) -> int:
        """
        Return the instant of the latest run whose date is before the date of *instant*.
        """
        index = self._index(self.date_of(instant))
        return self._instant(self._date(index - 1))

    def counted_from(self, day: date) -> Dates:
        """
        Return this series with another anchor: the date one step after *day*.
        """
        return replace(self, anchor_on=self._date(1, day))

    def has_phase_of(self, other: Dates) -> bool:
        """
        Return True if this series and *other* run on the same dates. The steps of both must be equal.
        """
        if self.step.days:
            return (self.anchor_on - other.anchor_on).days % self.step.days == 0
        return (
            self.anchor_on.day == other.anchor_on.day
            and (_month(self.anchor_on) - _month(other.anchor_on)) % self.step.months == 0
        )

    @property
    def meaning(self) -> Hashable:
        """
        A value that is equal for all spellings of the series. The anchor does not affect it.
        """
        return self.step, self.time, self._policies, zone_data(self.tz)

    def date_of(self, instant: int) -> date:
        """
        Return the date of the run at *instant*.
        """
        day = _zones.wall_of(instant // 1000, zone_of(self.tz)).date()
        return day - _DAY if day > _FIRST and self._instant(day - _DAY) == instant else day  # in a gap over midnight

    def _instant(self, day: date) -> int:
        return _zones.instant_of(datetime.combine(day, self.time), zone_of(self.tz)) * 1000

    @property
    def _policies(self) -> tuple[DstGap, DstOverlap]:
        return self.dst_gap or DstGap.END, self.dst_overlap or DstOverlap.FIRST

    def _next_wall(self, wall: datetime, *, inclusive: bool) -> datetime | None:
        index = self._index(wall.date())
        for each in (index, index + 1):
            found = datetime.combine(self._date(each), self.time)
            if found > wall or (inclusive and found == wall):
                return found if found.year <= _LAST_YEAR else None
        return None

    def _index(self, day: date) -> int:
        if self.step.days:
            return -((self.anchor_on - day).days // self.step.days)
        index = -((_month(self.anchor_on) - _month(day)) // self.step.months)
        return index if self._date(index) >= day else index + 1

    def _date(self, index: int, anchor_on: date | None = None) -> date:
        anchor_on = anchor_on or self.anchor_on
        if self.step.days:
            return anchor_on + timedelta(days=index * self.step.days)
        year, month = divmod(_month(anchor_on) + index * self.step.months, 12)
        if not date.min.year <= year <= date.max.year:
            raise OverflowError
        return date(year, month + 1, min(anchor_on.day, monthrange(year, month + 1)[1]))


def time_of(value: object) -> dt.time:
    """
    Parse a time of day: `02:00`, `23:59:30`, or a `time` without a zone. Other values raise a RecurrenceError.
    """
    if isinstance(value, str) and (found := _TIME.fullmatch(value)) is not None:
        try:
            hour, minute, second = (int(each or 0) for each in found.groups())
            return dt.time(hour, minute, second)
        except ValueError:
            pass
    elif type(value) is dt.time and value.tzinfo is None and value.microsecond == 0:
        return value.replace(fold=0)
    raise RecurrenceError("time", value, _TIME_REMEDY)


def _month(day: date) -> int:
    return day.year * 12 + day.month - 1
