"""
Internal: checks a caller's time zone.
"""

from __future__ import annotations

import io
import time
import zoneinfo
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from tickwheel.errors import MissingExtraError, RecurrenceError

__all__ = ["LOCAL", "check_zone", "local_zone", "zone_data", "zone_name", "zone_of", "zone_release"]

LOCAL: Final = "local"
"""The name by which callers request the zone of this machine. It is never stored."""
_YEAR_S: Final = 365 * 86_400
_MONTH_S: Final = 28 * 86_400
_REMEDY: Final = "pass an IANA zone such as 'Europe/Berlin' or 'UTC'"
_NAME_MAX: Final = 64
"""Maximum length of a text for which an error message suggests a zone name."""
_NO_DATABASE: Final = "this system has no zones but 'UTC': install some, as 'pip install tzdata' does"
_UTC: Final = b"TZif" + bytes(16 + 19) + b"\x01" + bytes(3) + b"\x04" + bytes(6) + b"UTC\0"
"""The contents of a zone file for UTC, used where the system has no zone files: a header, the offset 0 and the name."""
_UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"})
_NO_ZONES: Final = frozenset({"localtime", "posixrules", "Factory", "posix", "right"})
"""Names of zone files that are refused: they are not zones, or depend on the machine or on leap seconds."""


def zone_name(tz: str | tzinfo) -> str:
    if isinstance(tz, str):
        return local_zone() if tz == LOCAL else tz
    if tz is UTC:
        return "UTC"
    if not isinstance(tz, ZoneInfo):
        raise RecurrenceError("tz", tz, _REMEDY)
    if tz.key is None:
        raise RecurrenceError("tz", tz, f"it has no name: {_REMEDY}")
    return tz.key


def check_zone(tz: str) -> str:
    """
    Return the IANA name of the zone *tz*; "local" is the zone of this machine.

    A name is refused if it is unknown, or if its meaning depends on the machine.
    """
    if not isinstance(tz, str):
        name = getattr(tz, "key", None)  # if it is a ZoneInfo
        raise RecurrenceError("tz", tz, _REMEDY if name is None else f"pass its name, {name!r}")
    if tz == LOCAL:
        return local_zone()
    zone_of(tz)
    if tz.partition("/")[0] in _NO_ZONES:
        raise RecurrenceError("tz", tz, _REMEDY)
    return tz


def local_zone() -> str:
    """
    Return the IANA name of the zone of this machine.

    Raises:
        RecurrenceError: If the name is unknown, as with TZ=CET-1CEST.
    """
    try:
        import tzlocal  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        library, extra = "tzlocal", "cron"
        raise MissingExtraError(library, extra) from None
    try:
        name = tzlocal.reload_localzone().key
        zone = zone_of(name)
    except Exception as error:  # noqa: BLE001  the library may raise anything
        reason = str(error).partition("\n")[0].strip()
        raise RecurrenceError("tz", LOCAL, f"the zone of this machine is not known ({reason}): {_REMEDY}") from None
    start = int(time.time())
    for instant in range(start, start + _YEAR_S, _MONTH_S):
        offset = datetime.fromtimestamp(instant, zone).utcoffset()
        if offset is None or time.localtime(instant).tm_gmtoff != offset.total_seconds():
            what = f"the clock of this machine is not that of {name!r}, the zone that it names: {_REMEDY}"
            raise RecurrenceError("tz", LOCAL, what)
    return name


@lru_cache(maxsize=1)
def _names(_path: tuple[str, ...]) -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def _remedy(tz: str) -> str:
    names = _names(zoneinfo.TZPATH)
    if not names:
        return _NO_DATABASE
    if not isinstance(tz, str) or len(tz) > _NAME_MAX:
        return _REMEDY
    from difflib import get_close_matches  # noqa: PLC0415  for errors only

    given = tz.strip().replace(" ", "_").lower()
    meant = names.get(given) or next(map(names.get, get_close_matches(given, names, n=1, cutoff=0.8)), None)
    return _REMEDY if meant is None else f"pass an IANA zone: did you mean {meant!r}?"


@lru_cache(maxsize=512)
def zone_of(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(tz)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        if tz == "UTC":
            return ZoneInfo.from_file(io.BytesIO(_UTC), tz)
        raise RecurrenceError("tz", tz, _remedy(tz)) from None


def zone_release() -> tuple[str, str] | None:
    """
    Return the release of the zone data ("" if unknown), and the data's folder or package; None if there is no data.

    Like Python, the function searches the system's folders first, and then the package `tzdata`.
    """
    from importlib import import_module  # noqa: PLC0415  few programs ask for it
    from importlib.util import find_spec  # noqa: PLC0415  as above

    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "Europe" / "Berlin").is_file():
            named = folder / "tzdata.zi"
            head = named.read_text(errors="replace").partition("\n")[0] if named.is_file() else ""
            return head.removeprefix("# version "), str(folder)
    if find_spec("tzdata") is not None:
        return str(import_module("tzdata").IANA_VERSION), "the package tzdata"
    return None


@lru_cache(maxsize=512)
def zone_data(tz: str) -> bytes:
    """
    Return the contents of the zone file of *tz*, or the name if there is no file. They are equal for aliases of a zone.
    """
    if tz in _UTC_NAMES:
        return _UTC
    from importlib import resources  # noqa: PLC0415  it loads many modules, and few programs have zones

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
