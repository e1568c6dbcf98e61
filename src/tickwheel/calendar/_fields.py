"""
The wall-clock times of a cron line, without a zone, computed by cronsim (see docs/decisions/cron-calendar.md).
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from tickwheel.calendar import _days
from tickwheel.errors import MissingExtraError

if TYPE_CHECKING:
    from cronsim import CronSim

__all__ = [
    "WHOLE_DAY",
    "BadFieldError",
    "Clock",
    "NeverFiresError",
    "check",
    "clock_of",
    "meaning_of",
    "names_day",
    "next_wall",
    "words_of",
]

Clock: TypeAlias = tuple[frozenset[int], frozenset[int], frozenset[int]]
"""The times of day at which a cron line matches: its hours, minutes and seconds."""

WHOLE_DAY: Final[Clock] = (frozenset(range(24)), frozenset(range(60)), frozenset(range(60)))
_EVERY_DAY: Final[frozenset[object]] = frozenset(range(1, 32))
_EVERY_WEEKDAY: Final[frozenset[object]] = frozenset(range(7))
_SUNDAY: Final = 7
_SECOND = timedelta(seconds=1)
_YEARS = 50
_LAST_YEAR = 9900
"""Last year in which a search may begin. cronsim searches 50 years ahead, and `datetime` ends in the year 9999."""


class BadFieldError(Exception):
    """
    A field cannot be read. The message is cronsim's name for the field.
    """


class NeverFiresError(Exception): ...


def check(fields: str, *, needs_both: bool = False) -> None:
    """
    Raise BadFieldError if six *fields* cannot be read, or NeverFiresError if they never match any day.

    If *needs_both* is True, here and in the functions below, a day must match both day fields, even if a field begins
    with a star.
    """
    for each, _ in _alternatives(fields):
        try:
            _simulator(each, datetime(2000, 1, 1), needs_both=needs_both)  # noqa: DTZ001  a wall clock has no zone
        except BadFieldError as error:
            if str(error) != "day-of-month":
                raise
            second, minute, hour, day, _, weekday = each.split()
            fields = f"{second} {minute} {hour} {day} * {weekday}"
            _simulator(fields, datetime(2000, 1, 1), needs_both=needs_both)  # noqa: DTZ001 a wall clock has no zone
            raise NeverFiresError from None  # each field is valid, but the given months lack the day


def next_wall(fields: str, wall: datetime, *, inclusive: bool, needs_both: bool = False) -> datetime | None:
    """
    Return the first match of six *fields* after *wall* (if *inclusive*, at or after); None if 50 years have no match.
    """
    if wall.year > _LAST_YEAR:
        return None
    start = wall - _SECOND if inclusive else wall
    found = (_next_of(each, special, start, needs_both=needs_both) for each, special in _alternatives(fields))
    return min((each for each in found if each is not None), default=None)


@lru_cache(maxsize=4096)
def clock_of(fields: str) -> Clock:
    simulator, _ = _readers(fields, needs_both=False)[0]  # the readers differ only in their days
    return frozenset(simulator.hours), frozenset(simulator.minutes), frozenset(simulator.seconds)


def words_of(fields: str, *, has_seconds: bool) -> str | None:
    """
    Return an English description of six cron *fields*; None with a day such as `15W` or `L-3`.
    """
    (each, special), *others = _alternatives(fields)
    if special is not None or others:
        return None
    text = each if has_seconds else each.partition(" ")[2]
    words = str(_simulator(text, datetime(2000, 1, 1), needs_both=False).explain())  # noqa: DTZ001  no time is read
    return words[:1].lower() + words[1:]


@lru_cache(maxsize=4096)
def meaning_of(fields: str, *, needs_both: bool = False) -> Hashable:
    return frozenset(
        (
            *(frozenset(each) for each in (simulator.seconds, simulator.minutes, simulator.hours, simulator.months)),
            _days_of(simulator),
            special,
        )
        for simulator, special in _readers(fields, needs_both=needs_both)
    )


def _days_of(simulator: CronSim) -> Hashable:
    days: frozenset[object] = frozenset(simulator.days)
    weekdays: frozenset[object] = frozenset(0 if each == _SUNDAY else each for each in simulator.weekdays)
    if simulator.day_and:
        return days, weekdays
    if days == _EVERY_DAY or weekdays == _EVERY_WEEKDAY:
        return _EVERY_DAY, _EVERY_WEEKDAY
    return "either", days, weekdays


def names_day(fields: str, day: date) -> bool:
    return any(
        day.month in simulator.months and simulator.match_day(day) and (special is None or _days.is_match(special, day))
        for simulator, special in _readers(fields, needs_both=False)
    )


@lru_cache(maxsize=4096)
def _readers(fields: str, *, needs_both: bool) -> tuple[tuple[CronSim, str | None], ...]:
    start = datetime(2000, 1, 1)  # noqa: DTZ001  a wall clock has no zone
    return tuple((_simulator(each, start, needs_both=needs_both), special) for each, special in _alternatives(fields))


def _next_of(fields: str, special: str | None, start: datetime, *, needs_both: bool) -> datetime | None:
    last_year, after = start.year + _YEARS, start
    while after.year <= last_year:
        wall = next(_simulator(fields, after, needs_both=needs_both), None)
        if wall is None or special is None or _days.is_match(special, wall):
            return wall
        after = datetime.combine(wall, time.max).replace(microsecond=0)  # the day's last second
    return None


@lru_cache(maxsize=4096)
def _alternatives(fields: str) -> tuple[tuple[str, str | None], ...]:
    """
    Split *fields* into lines that cronsim can read, each with a special day term, such as `15W`, or None.

    A day must match a line and its term.
    """
    second, minute, hour, day, month, weekday = fields.split()
    head, tail = f"{second} {minute} {hour}", f"{month} {weekday}"
    terms = day.split(",")
    plain = ",".join(term for term in terms if not _days.is_special(term))
    found: list[tuple[str, str | None]] = [(f"{head} {plain} {tail}", None)] if plain else []
    for term in filter(_days.is_special, terms):
        days = _days.candidates(term)
        if days is None:
            what = "day-of-month"
            raise BadFieldError(what)
        found.append((f"{head} {days} {tail}", term))
    return tuple(found)


def _simulator(fields: str, wall: datetime, *, needs_both: bool) -> CronSim:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        library, extra = "cronsim", "cron"
        raise MissingExtraError(library, extra) from None
    try:
        simulator = CronSim(fields, wall)
    except CronSimError as error:
        raise BadFieldError(str(error).removeprefix("Bad ")) from None
    if needs_both:
        simulator.day_and = True
    return simulator
