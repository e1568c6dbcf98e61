"""
A cron line.

Five fields (minute hour day month weekday) are read like Debian's cron, and six fields (second first) like robfig/cron.
The dialects differ in two ways:

    if                              five fields                             six fields
    both day fields are             a day matches if either field does;     a day matches if either field does;
    restricted                      both must match if one begins with `*`  only `*` and `?` are unrestricted
    DST skips or repeats a time     "literal" if minute or hour begins      "literal"
    (see `_zones`)                  with `*`, otherwise "once a day"

Both accept names, ranges, steps, lists, 0 or 7 for Sunday, `?` as `*` in a day field, and ranges that run past the end
of their field (`FRI-MON`, `22-4`). Both accept Quartz's terms for days of the month, `L`, `LW`, `15W`, `L-3`, `L-3W`,
and for weekdays, `FRIL`, `FRI#3`, or `5L`, `5#3` (Quartz writes `6L`, `6#3`, because it counts Sunday as 1). `a/n` in
the weekday field runs from *a* to Saturday.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from tickwheel.calendar import _days, _fields, _zones
from tickwheel.calendar._ranges import WEEKDAYS, unwrapped
from tickwheel.calendar._zones import DstGap, DstOverlap
from tickwheel.calendar.zone import check_zone, zone_data, zone_of
from tickwheel.errors import RecurrenceError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["WITH_SECONDS", "Cron", "DayMatch", "six_fields"]

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = ("second", "minute", "hour", "day-of-month", "month", "day-of-week")
_TAKES = ("0-59", "0-59", "0-23", "1-31, L, LW, 15W, L-3", "1-12 or JAN-DEC", "0-7 or SUN-SAT, FRIL, FRI#3")
_LAST = {f"{name}L": f"{number}L" for number, name in enumerate(WEEKDAYS)}
"""Maps terms for the last Monday, Tuesday and so on of a month, such as `MONL`, to cronsim's terms, such as `1L`."""
WITH_SECONDS = 6
_LONGEST = 500
"""Maximum length of a line. A line that lists every second, minute and hour has about 400 characters."""
_TZ_PREFIXES = ("TZ=", "CRON_TZ=")


class DayMatch(StrEnum):
    """
    The days that a line matches if it restricts both the day of the month and the weekday.
    """

    EITHER = "either"
    """Days that match at least one of the two fields. The table at the top of this module has the exceptions."""
    BOTH = "both"
    """Days that match both fields."""


@dataclass(frozen=True, slots=True)
class Cron:
    """
    A valid line in a valid zone; made with `parse`.

    Attributes:
        line: The five or six fields, in upper case, with aliases resolved.
        day_match: Meaning of a line that restricts both the day of the month and the weekday.
        dst_gap: Policy for times that the clock skips; None for the default of the line's dialect.
        dst_overlap: Policy for times that the clock shows twice; None for the default of the line's dialect.
    """

    line: str
    tz: str = "UTC"
    day_match: DayMatch = DayMatch.EITHER
    dst_gap: DstGap | None = None
    dst_overlap: DstOverlap | None = None

    @classmethod
    def parse(cls, text: str, tz: str = "UTC", day_match: DayMatch = DayMatch.EITHER) -> Cron:
        """
        Read a line, which may begin with `TZ=zone`.

        Raises:
            RecurrenceError: If the line is invalid or never fires, or the zone is unknown; the message names the bad
                part.
        """
        if not isinstance(text, str):
            raise RecurrenceError("cron", text, "pass a line of five or six fields")
        if len(text) > _LONGEST:
            raise RecurrenceError("cron", text, f"it has {len(text)} characters: a line has at most {_LONGEST}")
        line, tz = _split_zone(text, tz)
        tz = check_zone(tz)
        line = ALIASES.get(line.lower(), line.upper())
        if line.startswith("@"):
            raise RecurrenceError("cron", text, f"the aliases are {', '.join(ALIASES)}, and for jobs '@every 90s'")
        count = len(line.split())
        if count not in (WITH_SECONDS - 1, WITH_SECONDS):
            fields = "1 field" if count == 1 else f"{count} fields"
            raise RecurrenceError("cron", text, f"it has {fields}: write 5 (minute first) or 6 (second first)")
        needs_both = day_match is DayMatch.BOTH
        if not needs_both:
            _check_days(text, line)
        _check(text, line, needs_both=needs_both)
        return cls(" ".join(line.split()), tz, day_match)

    def next(self, after: int, *, makes_up: bool = True) -> int | None:
        """
        Return the first instant in ms since the epoch later than *after*, or None if there is none within 50 years.

        If *makes_up* is True, the runs of a day that the zone's calendar omits move to the end of the omitted day.
        """
        next_wall = partial(_fields.next_wall, six_fields(self.line), needs_both=self._needs_both)
        zone, start = zone_of(self.tz), after // 1000
        try:
            if self.dst_gap is not None or self.dst_overlap is not None:
                found = _zones.next_by_policy(next_wall, zone, start, *self._policies, makes_up=makes_up)
            elif self.is_literal:
                found = _zones.next_literal(next_wall, zone, start)
            else:
                found = _zones.next_once_a_day(next_wall, zone, start, makes_up=makes_up)
        except (OverflowError, ValueError):  # past the year 9999
            return None
        return None if found is None else found * 1000

    @property
    def zone(self) -> ZoneInfo:
        """
        The zone object.
        """
        return zone_of(self.tz)

    @property
    def meaning(self) -> Hashable:
        """
        A value that is equal for all spellings of the line and of its zone.
        """
        days = _fields.meaning_of(six_fields(self.line), needs_both=self._needs_both)
        return self._policies, days, zone_data(self.tz)

    @property
    def words(self) -> str | None:
        """
        The line in English without its zone, such as "at 09:00 on Monday through Friday"; None for a day such as `15W`.
        """
        return _fields.words_of(six_fields(self.line), has_seconds=len(self.line.split()) == WITH_SECONDS)

    @property
    def _needs_both(self) -> bool:
        return self.day_match is DayMatch.BOTH

    @property
    def _policies(self) -> tuple[DstGap, DstOverlap]:
        usual = (DstGap.SKIP, DstOverlap.BOTH) if self.is_literal else (DstGap.END, DstOverlap.FIRST)
        return self.dst_gap or usual[0], self.dst_overlap or usual[1]

    @property
    def is_literal(self) -> bool:
        """
        True if the line follows the rule "literal", False if it follows the rule "once a day"; `_zones` explains both.
        """
        fields = self.line.split()
        return len(fields) == WITH_SECONDS or fields[0].startswith("*") or fields[1].startswith("*")


def _split_zone(text: str, tz: str) -> tuple[str, str]:
    head, _, rest = text.replace("\t", " ").strip().partition(" ")
    for prefix in _TZ_PREFIXES:
        if head.startswith(prefix):
            named = head.removeprefix(prefix)
            if tz not in ("UTC", named):
                raise RecurrenceError("tz", tz, f"the cron line itself says {named!r}: give the zone once")
            return rest.strip(), named
    return text.strip(), tz


@lru_cache(maxsize=4096)
def six_fields(line: str) -> str:
    fields = line.split()
    is_robfig = len(fields) == WITH_SECONDS
    if not is_robfig:
        fields.insert(0, "0")
    fields = [",".join(unwrapped(term, index) for term in field.split(",")) for index, field in enumerate(fields)]
    for index, low, high in ((3, 1, 31), (5, 0, 6)):
        terms = [_term(term, low, high, is_robfig=is_robfig) for term in fields[index].split(",")]
        fields[index] = ",".join(terms)
    return " ".join(fields)


def _term(term: str, low: int, high: int, *, is_robfig: bool) -> str:
    base, slash, step = term.partition("/")
    if base == "?":
        base = "*"
    if not slash:
        return _LAST.get(base, base) if high == 6 else base  # noqa: PLR2004  Saturday
    if base == "*" and is_robfig and step != "1":
        base = f"{low}-{high}"  # cronsim would treat the star as "unrestricted"
    elif high == 6 and base not in ("*", "7") and "-" not in base:  # noqa: PLR2004  Saturday
        base = f"{base}-{high}"  # cronsim would run to 7 and so add Sunday
    return f"{base}/{step}"


def _check_days(text: str, line: str) -> None:
    day, _, weekday = line.split()[-3:]
    if weekday not in ("*", "?") and any(map(_days.is_special, day.split(","))):
        remedy = f"beside a day-of-month field of {day!r} the day-of-week field has to be * or ?, not {weekday!r}"
        raise RecurrenceError("cron", text, remedy)


def _check(text: str, line: str, *, needs_both: bool) -> None:
    fields = six_fields(line)
    try:
        _fields.check(fields, needs_both=needs_both)
    except _fields.BadFieldError as error:
        name = str(error)
        index = _FIELDS.index(name)
        field = line.split()[index - WITH_SECONDS]  # the field as written, of five or six
        remedy = f"its {name} field {field!r} cannot be read: it takes {_TAKES[index]}, lists, ranges and steps"
        raise RecurrenceError("cron", text, remedy) from None
    except _fields.NeverFiresError:
        day, month = fields.split()[3:5]
        remedy = f"it never fires, as no month of {month!r} has a day {day!r}: mend the day or the month"
        raise RecurrenceError("cron", text, remedy) from None
    start = datetime(2000, 1, 1)  # noqa: DTZ001 a wall clock has no zone
    if _fields.next_wall(fields, start, inclusive=True, needs_both=needs_both) is None:
        raise RecurrenceError("cron", text, "it does not fire within 50 years: mend the day fields")
