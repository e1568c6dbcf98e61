"""
A zone as a caller names it.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import io
import zoneinfo
from contextlib import suppress
from datetime import UTC, tzinfo
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from tickwheel.errors import RecurrenceError

__all__ = ["check_zone", "zone_data", "zone_name", "zone_of"]

_REMEDY: Final = "pass an IANA zone such as 'Europe/Berlin' or 'UTC'"
_NO_DATABASE: Final = "this system has no zones but 'UTC': install some, as 'pip install tzdata' does"
_UTC: Final = b"TZif" + bytes(16 + 19) + b"\x01" + bytes(3) + b"\x04" + bytes(6) + b"UTC\0"
"""The file of a zone whose clock never changes: a head with the numbers of what follows, one offset of 0, its name."""
_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"})
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory", "posix", "right"})
"""Files beside the IANA zones: they mean another zone on each machine, none at all, or count leap seconds."""


def zone_name(tz: str | tzinfo) -> str:
    """
    Return the name of a zone that may be given as a ZoneInfo.

    Raises:
        RecurrenceError: If it has no name, as a ZoneInfo of a file.
    """
    if isinstance(tz, str):
        return tz
    if tz is UTC:
        return "UTC"
    if not isinstance(tz, ZoneInfo):
        raise RecurrenceError("tz", tz, _REMEDY)
    if tz.key is None:
        raise RecurrenceError("tz", tz, f"it has no name: {_REMEDY}")
    return tz.key


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


@lru_cache(maxsize=1)
def _has_zones(_path: tuple[str, ...]) -> bool:
    """
    Return whether there are any zones: a walk through some thousand files.
    """
    return bool(available_timezones())


@lru_cache(maxsize=512)
def zone_of(tz: str) -> ZoneInfo:
    """
    Return the zone of that name; UTC is there without a database of zones, too.

    Raises:
        RecurrenceError: If there is none.
    """
    try:
        return ZoneInfo(tz)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        if tz == "UTC":
            return ZoneInfo.from_file(io.BytesIO(_UTC), tz)
        raise RecurrenceError("tz", tz, _REMEDY if _has_zones(zoneinfo.TZPATH) else _NO_DATABASE) from None


@lru_cache(maxsize=512)
def zone_data(tz: str) -> bytes:
    """
    Return the file of the zone of that name, which aliases such as 'US/Eastern' share; the name where none is found.
    """
    if tz in _UTC_NAMES:
        return _UTC
    parts = tz.split("/")
    places = [Path(place).joinpath(*parts) for place in zoneinfo.TZPATH]
    with suppress(ModuleNotFoundError):
        places.append(Path(str(resources.files("tzdata.zoneinfo").joinpath(*parts))))
    for place in places:
        try:
            return place.read_bytes()
        except (OSError, ValueError):
            pass
    return tz.encode("utf-8", "surrogatepass")
