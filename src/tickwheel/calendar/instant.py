"""
Internal: parses instants of the wall clock.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from tickwheel.clock import NEVER, to_deadline, to_ns, to_seconds
from tickwheel.errors import InvalidValueError
from tickwheel.typing import Instant

__all__ = ["EPOCH", "from_iso", "instant"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_S: Final = 1e10
"""Limit to which seconds since the epoch are clamped: the year 2286, which is past the last valid instant."""
_MICROSECOND: Final = timedelta(microseconds=1)


def from_iso(text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        remedy = "write ISO 8601 with an offset, as in 2030-01-01T09:00:00+01:00"
        raise ValueError(remedy) from None
    if when.utcoffset() is None:
        remedy = "it has no offset: add one, as in 2030-01-01T09:00:00+01:00 or 2030-01-01T08:00:00Z"
        raise ValueError(remedy)
    return when


def instant(when: Instant, name: str = "when") -> tuple[int, tzinfo]:
    """
    Convert *when* to nanoseconds since the epoch; also return the zone for display.

    The nanoseconds are rounded up, so the result is never before *when*, even as a float of seconds. The errors are
    those of `call_at_wall`.
    """
    zone: tzinfo = UTC
    if isinstance(when, str):
        try:
            when = from_iso(when)
        except ValueError as error:
            raise InvalidValueError(name, when, str(error)) from None
    if isinstance(when, datetime):
        if when.tzinfo is None or when.utcoffset() is None:
            raise InvalidValueError(name, when, "it has no zone: add tzinfo, such as ZoneInfo('Europe/Berlin') or UTC")
        zone, value = when.tzinfo, when.timestamp()
        ns = (when - EPOCH) // _MICROSECOND * 1_000 + getattr(
            when, "nanosecond", 0
        )  # pandas' Timestamp has nanoseconds
    elif isinstance(when, bool | timedelta) or not (hasattr(when, "__float__") or hasattr(when, "__index__")):
        message = f"{name} is {when!r}: pass an aware datetime, ISO 8601 text, or seconds since the epoch"
        raise TypeError(message)
    else:
        value = min(max(to_seconds(when, name), -_FAR_S), _FAR_S)
        numerator, denominator = value.as_integer_ratio()
        ns = max(to_ns(when, name), -(-numerator * 1_000_000_000 // denominator))
    if ns > 0:
        ns = max(ns, to_deadline(value))  # because time.time() also rounds
    if ns >= NEVER:
        raise InvalidValueError(name, when, "it is past the year 2262: pass seconds since the epoch, not milliseconds")
    return ns, zone
