"""
Days of a month that Quartz has terms for, but cronsim lacks.

    15W     the weekday (Monday to Friday) nearest to the 15th, in the same month
    L-3     three days before the last day
    L-3W    the weekday nearest to L-3

A month without the day, such as April for `31W`, has no match.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date
from typing import Final

__all__ = ["candidates", "is_match", "is_special"]

_TERM: Final = re.compile(r"(?:L-(?P<before>[0-9]{1,2})|(?P<day>[0-9]{1,2}))(?P<weekday>W?)")
_SHORTEST, _LONGEST = 28, 31
_SATURDAY, _SUNDAY = 5, 6


def is_special(term: str) -> bool:
    return ("W" in term or term.startswith("L-")) and term != "LW"


def candidates(term: str) -> str | None:
    found = _TERM.fullmatch(term)
    if found is None:
        return None
    if found["before"]:
        before = int(found["before"])
        first, last = _SHORTEST - before, _LONGEST - before
        is_right = 1 <= before < _LONGEST
    else:
        first = last = int(found["day"])
        is_right = 1 <= first <= _LONGEST
    reach = 2 if found["weekday"] else 0
    return f"{max(1, first - reach)}-{min(_LONGEST, last + reach)}" if is_right else None


def is_match(term: str, day: date) -> bool:
    found = _TERM.fullmatch(term)
    assert found is not None
    first_weekday, last = monthrange(day.year, day.month)
    number = last - int(found["before"]) if found["before"] else int(found["day"])
    if not 1 <= number <= last:
        return False
    if found["weekday"]:
        weekday = (first_weekday + number - 1) % 7
        if weekday == _SATURDAY:
            number += -1 if number > 1 else 2
        elif weekday == _SUNDAY:
            number += 1 if number < last else -2
    return day.day == number
