"""
Converts the fields of an APScheduler cron trigger to a cron line.

In APScheduler, a day has to match both day fields. The field for the day of the month may contain numbers, and terms
such as `2nd fri`. One of these numbers and terms has to match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tickwheel.cli.takeover import CannotTakeOverError

__all__ = ["DAYS", "cron_of", "day_names"]

DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
"""Names of days. APScheduler has the same names but other numbers: Monday is 0 in APScheduler, and 1 in this module."""


def day_names(first: int, last: int, step: int) -> str:
    """
    Return every *step*-th day from *first* to *last*. Monday is 0.
    """
    return ",".join(DAYS[first : last + 1 : step])


def cron_of(parts: Mapping[str, str]) -> dict[str, Any]:
    for name in ("year", "week"):
        if parts[name] != "*":
            reason = f"its cron trigger has {name}={parts[name]!r}, which a cron line cannot say"
            raise CannotTakeOverError(reason)
    day, weekday = parts["day"], parts["day_of_week"]
    terms = day.split(",")
    named = [term for term in terms if "#" in term or (term.endswith("L") and term != "L")]  # terms of weekdays
    numbers = ["1-31" + term[1:] if term.startswith("*/") else term for term in terms if term not in named]
    if "*" in numbers:
        named, numbers = [], ["*"]
    if named and weekday != "*":
        raise CannotTakeOverError("its cron trigger restricts day_of_week, and names weekdays in its day as well")
    needs_both = not named and numbers != ["*"] and weekday != "*"
    day, weekday = ",".join(numbers) or "*", ",".join(named) or weekday
    line = [parts["minute"], parts["hour"], day, parts["month"], weekday]
    if parts["second"] != "0":
        line.insert(0, parts["second"])
    made = {"cron": " ".join(line)}
    return made | {"day_match": "both"} if needs_both else made
