"""
The fields of a cron trigger of APScheduler's, put together to a cron line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tickwheel.cli.takeover import CannotTakeOverError

__all__ = ["DAYS", "cron_of", "day_names"]

DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
"""Monday is 0 there and 1 here: the names are the same."""


def day_names(first: int, last: int, step: int) -> str:
    """
    Return each *step*-th day from *first* to *last*, counted from Monday as 0.
    """
    return ",".join(DAYS[first : last + 1 : step])


def cron_of(parts: Mapping[str, str]) -> str:
    """
    Return the cron line of *parts*, which are named as in APScheduler.

    Raises:
        CannotTakeOverError: If there is none.
    """
    for name in ("year", "week"):
        if parts[name] != "*":
            reason = f"its cron trigger has {name}={parts[name]!r}, which a cron line cannot say"
            raise CannotTakeOverError(reason)
    day, weekday = parts["day"], parts["day_of_week"]
    if "#" in day or (day.endswith("L") and day != "L"):  # the third Friday: a day there, a weekday here
        if weekday != "*":
            raise CannotTakeOverError("its cron trigger restricts both day and day_of_week")
        day, weekday = "*", day
    if day != "*" and weekday != "*":
        raise CannotTakeOverError("its cron trigger wants both day and day_of_week to match, a cron line one of them")
    line = [parts["minute"], parts["hour"], day, parts["month"], weekday]
    if parts["second"] != "0":
        line.insert(0, parts["second"])
    return " ".join(line)
