from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["near"]

_EDITS_MAX: Final = 2


def near(name: str, known: Iterable[str]) -> str | None:
    """
    Return the name in *known* that a caller probably meant by *name*, or None.

    *name* may have a typo or another case, or lack the name of its module. Names that differ only in digits, such as
    "mail1" and "mail2", are not similar.
    """
    names = list(known)
    if name in names:
        return None
    same = [each for each in names if _plain(each) == _plain(name)]
    if same:
        return same[0] if _digits(same[0]) == _digits(name) else None
    tails = [each for each in names if each.rpartition(".")[2] == name]
    if len(tails) == 1:
        return tails[0]
    closest = min(names, key=lambda each: _edits(name, each), default=None)
    if closest is None or _without_digits(closest) == _without_digits(name):
        return None
    return closest if _edits(name, closest) <= min(_EDITS_MAX, len(name) // 3) else None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")


def _digits(name: str) -> str:
    return "".join(letter for letter in name if letter.isdigit())


def _without_digits(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())


def _edits(one: str, other: str) -> int:
    if abs(len(one) - len(other)) > _EDITS_MAX:
        return _EDITS_MAX + 1
    before, last = list(range(len(other) + 1)), list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        line = [row]
        for column, right in enumerate(other, 1):
            cost = min(last[column] + 1, line[column - 1] + 1, last[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, last = last, line
    return last[-1]
