"""
Converts ranges of a cron field that wrap around (`FRI-MON`, `22-4/2`) to lists, because cronsim refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["WEEKDAYS", "unwrapped"]

WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_BOUNDS: Final = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_NUMBERS: Final[Mapping[int, Mapping[str, int]]] = {
    4: {name: number for number, name in enumerate(_MONTHS, 1)},
    5: {"7": 0} | {name: number for number, name in enumerate(WEEKDAYS)},
}
"""The numbers of months and weekdays by name, keyed by the index of the field. 7 also means Sunday."""
_DIGITS: Final = 2


def unwrapped(term: str, index: int) -> str:
    """
    Return *term*, or the list of its values if its range wraps around. *index* is the field's index, 0 to 5.
    """
    span, slash, step = term.partition("/")
    begin, end = (_value(each, index) for each in span.partition("-")[::2])
    low, high = _BOUNDS[index]
    if begin is None or end is None or not low <= end < begin <= high or (slash and not _is_number(step)):
        return _from_sunday(term, index)
    values = [*range(begin, high + 1), *range(low, end + 1)]
    width = int(step) if slash else 1
    return ",".join(map(str, values[::width])) if width else term


def _from_sunday(term: str, index: int) -> str:
    return f"0-{term[2:]}" if _BOUNDS[index] == _BOUNDS[-1] and term.startswith("7-") and term != "7-7" else term


def _value(text: str, index: int) -> int | None:
    named = _NUMBERS.get(index, {}).get(text)
    return named if named is not None else int(text) if _is_number(text) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS
