"""
The wall-clock times that a cron line matches, computed by cronsim.

cronsim is used without a zone, as a pure calendar; `_zones` maps its times to instants.
Why cronsim, and what it and croniter do differently: docs/decisions/cron-calendar.md.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tickwheel.errors import MissingExtraError

if TYPE_CHECKING:
    from cronsim import CronSim

__all__ = ["BadFieldError", "NeverFiresError", "check", "next_wall"]

_SECOND = timedelta(seconds=1)
_LAST_YEAR = 9900
"""cronsim looks 50 years ahead; past this a search could leave the years that `datetime` has."""


class BadFieldError(Exception):
    """
    A field that cannot be read; carries its name in cronsim's words.
    """


class NeverFiresError(Exception):
    """
    A line without a matching day.
    """


def check(fields: str) -> None:
    """
    Refuse six *fields* that cannot be read or that match no day of any year.

    Raises:
        BadFieldError: Naming the field.
        NeverFiresError: Such as 31 February.
        MissingExtraError: Without cronsim.
    """
    try:
        _simulator(fields, datetime(2000, 1, 1))  # noqa: DTZ001  a wall clock has no zone
    except BadFieldError as error:
        if str(error) != "day-of-month":
            raise
        second, minute, hour, day, _, weekday = fields.split()
        _simulator(f"{second} {minute} {hour} {day} * {weekday}", datetime(2000, 1, 1))  # noqa: DTZ001 a wall clock has no zone
        raise NeverFiresError from None  # the day is fine in some month, so it is the months given that lack it


def next_wall(fields: str, wall: datetime, *, inclusive: bool) -> datetime | None:
    """
    Return the first match of six *fields* after *wall* (or at it), or None if there is none within 50 years.
    """
    if wall.year > _LAST_YEAR:
        return None
    return next(_simulator(fields, wall - _SECOND if inclusive else wall), None)


def _simulator(fields: str, wall: datetime) -> CronSim:
    try:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        library, extra = "cronsim", "cron"
        raise MissingExtraError(library, extra) from None
    try:
        return CronSim(fields, wall)
    except CronSimError as error:
        raise BadFieldError(str(error).removeprefix("Bad ")) from None
