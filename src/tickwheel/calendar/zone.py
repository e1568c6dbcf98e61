"""
A zone as a caller names it.

Internal: other rooms use it, users do not.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from tickwheel.errors import RecurrenceError

__all__ = ["check_zone", "zone_of"]

_REMEDY: Final = "pass an IANA zone such as 'Europe/Berlin' or 'UTC'"
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory", "posix", "right"})
"""Files beside the IANA zones: they mean another zone on each machine, none at all, or count leap seconds."""


def check_zone(tz: str) -> None:
    """
    Refuse what names no zone, or another one on each machine.

    Raises:
        RecurrenceError: With the remedy.
    """
    if not isinstance(tz, str):
        raise RecurrenceError("tz", tz, _REMEDY)
    zone_of(tz)
    if tz.partition("/")[0] in _NO_ZONES:
        raise RecurrenceError("tz", tz, _REMEDY)


@lru_cache(maxsize=512)
def zone_of(tz: str) -> ZoneInfo:
    """
    Return the zone of that name.

    Raises:
        RecurrenceError: If there is none.
    """
    try:
        return ZoneInfo(tz)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        raise RecurrenceError("tz", tz, _REMEDY) from None
