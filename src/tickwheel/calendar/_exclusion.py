"""
Exclusions: days, or matches of a second cron line, on which a series has no runs.

An exclusion is compared with the wall-clock time of a run in the exclusion's zone. A line of five fields excludes whole
minutes, so `* * * * SAT,SUN` excludes the weekend for every series. A line of six fields excludes single seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final

from tickwheel.calendar import _fields
from tickwheel.calendar._cron import WITH_SECONDS, Cron, six_fields
from tickwheel.calendar._zones import first_change, wall_of
from tickwheel.calendar.zone import check_zone, zone_of
from tickwheel.errors import RecurrenceError

__all__ = ["Exclusion"]

_DAY: Final = timedelta(days=1)
_UNITS: Final = (timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_SIZES: Final = (24, 60, 60)
_AHEAD: Final = timedelta(weeks=52)
"""One search for the end of an exclusion looks at most this far ahead."""
_TAKES: Final = "pass a day such as '2026-12-25', days such as '2026-12-24/2027-01-02', or a cron line"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """
    A valid exclusion, which `parse` returns.

    Attributes:
        first: The first excluded day, or None if a cron line defines the exclusion.
    """

    first: date | None
    last: date | None
    line: Cron | None
    tz: str

    @classmethod
    def parse(cls, text: object, tz: str = "UTC") -> Exclusion:
        """
        Parse *text*: a day, which may be a `date`, a range of days with a slash, or a cron line in the zone *tz*.

        Raises:
            RecurrenceError: If *text* cannot be read, or a line names another zone.
        """
        tz = check_zone(tz)
        if type(text) is date and text < date.max:
            return cls(text, text, None, tz)
        if not isinstance(text, str):
            raise RecurrenceError("exclude", text, _TAKES)
        first, slash, last = text.strip().partition("/")
        try:
            days = _day(first), _day(last if slash else first)
        except ValueError:
            return cls(None, None, _line(text, tz), tz)
        if days[0] > days[1]:
            raise RecurrenceError("exclude", text, "its last day is before its first: exchange them")
        if days[1] == date.max:
            raise RecurrenceError("exclude", text, "no day is after its last one: name an earlier one, or pass until=")
        return cls(*days, None, tz)

    def end(self, instant: int, line: Cron | None = None) -> int | None:
        """
        Return a time until which the exclusion lasts from *instant* on; None if *instant* is not excluded.

        Times are in ms since the epoch, before the year 9999. If the series uses the same zone, *line* is its cron
        line, and times that *line* does not match count as excluded.
        """
        zone, start = zone_of(self.tz), instant // 1000
        wall = wall_of(start, zone)
        end = self._end(wall, _fields.WHOLE_DAY if line is None else _fields.clock_of(six_fields(line.line)))
        if end is None:
            return None
        until = start + int((end - wall).total_seconds())
        return (first_change(zone, start, until) or until) * 1000  # a change of the offset may end the excluded time

    def __str__(self) -> str:
        if self.line is not None:
            return self.line.line
        return f"{self.first}" if self.first == self.last else f"{self.first}/{self.last}"

    def _end(self, wall: datetime, among: _fields.Clock) -> datetime | None:
        if self.line is not None:
            return _end_of_match(self.line.line, wall, among)
        assert self.first is not None
        assert self.last is not None
        return datetime.combine(self.last + _DAY, time()) if self.first <= wall.date() <= self.last else None


def _day(text: str) -> date:
    if "W" in text:  # Python would read a week as the Monday of the week
        raise ValueError(text)
    return date.fromisoformat(text)


def _line(text: str, tz: str) -> Cron:
    try:
        line = Cron.parse(text, tz)
    except RecurrenceError as error:
        if error.name == "tz":
            raise
        raise RecurrenceError("exclude", text, f"{_TAKES}; as a line, {error.remedy}") from None
    if line.tz != tz:
        raise RecurrenceError("exclude", text, f"all are read in the zone of tz=, {tz!r} here: pass tz={line.tz!r}")
    return line


def _end_of_match(line: str, wall: datetime, among: _fields.Clock) -> datetime | None:
    """
    Return the end of the period around *wall* in which *line* matches, or None if *line* does not match *wall*.

    Times of day outside *among* count as matching.
    """
    fields = six_fields(line)
    named = _fields.clock_of(fields)
    if len(line.split()) < WITH_SECONDS:
        named = (*named[:2], _fields.WHOLE_DAY[2])
    shown = (wall.hour, wall.minute, wall.second)
    is_named = all(value in values for value, values in zip(shown, named, strict=True))
    if not is_named or not _fields.names_day(fields, wall.date()):
        return None
    begins = (wall.replace(minute=0, second=0), wall.replace(second=0), wall)
    for index in (2, 1, 0):
        free = among[index] - named[index]
        if free:
            value = min((each for each in free if each > shown[index]), default=_SIZES[index])
            return begins[index] + (value - shown[index]) * _UNITS[index]
    day = wall.date() + _DAY
    last = wall.date() + _AHEAD
    while day < last and _fields.names_day(fields, day):
        day += _DAY
    return datetime.combine(day, time())
