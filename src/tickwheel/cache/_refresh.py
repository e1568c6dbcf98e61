from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tickwheel.cache._timer import duration_ns
from tickwheel.wheels.contract import checked_count

__all__ = ["Refresh"]

_YEAR_NS: Final = 366 * 24 * 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Refresh:
    """
    The rules by which `take`, its variants and `cached` renew a value that is about to expire or has expired.

        TTLCache(1000, ttl=60.0, refresh=Refresh(ahead=5.0, stale_while_revalidate=30.0, stale_if_error=600.0))

    `stale_while_revalidate` and `stale_if_error` come from RFC 5861. Only `take`, its variants and `cached` return an
    expired value; for `cache[key]`, `get` and all other methods, the key is missing. An expired value counts in
    `currsize`. It leaves, with `on_expire`, when it may no longer be returned. A background load runs in a thread of
    the cache, or, for `take_async`, in a task of the loop. Errors of background loads are logged and counted, and the
    old value stays as long as it may be returned.

    Args:
        ahead: Seconds before a lifetime ends. In this time, a call returns the present value and loads a new value in
            the background. If *ahead* is at least as long as a lifetime, half of the lifetime is used instead.
        stale_while_revalidate: Seconds after the end of a lifetime during which a call returns the expired value and
            loads a new value in the background.
        stale_if_error: Seconds after the end of a lifetime during which a call whose load fails returns the expired
            value, unless that value was removed during the load.
        loads_max: Maximum number of background loads at once.
        retry_after: Minimum seconds between a failed load of a key and its next load, while there is a value that may
            be returned. 0 to try at each call.

    Raises:
        ValueError: If a duration is NaN, negative or over a year, or *loads_max* is below 1.
    """

    ahead: float | timedelta = 0.0
    stale_while_revalidate: float | timedelta = 0.0
    stale_if_error: float | timedelta = 0.0
    loads_max: int = 4
    retry_after: float | timedelta = 1.0

    def __post_init__(self) -> None:
        for name in ("ahead", "stale_while_revalidate", "stale_if_error", "retry_after"):
            duration = getattr(self, name)
            if duration_ns(duration, name) > _YEAR_NS:
                message = f"{name} is {duration!r}: pass at most a year, so that values leave"
                raise ValueError(message)
        checked_count(self.loads_max, "loads_max", 1)

    @property
    def ahead_ns(self) -> int:
        """
        Return `ahead` in nanoseconds.
        """
        return duration_ns(self.ahead, "ahead")

    @property
    def revalidate_ns(self) -> int:
        """
        Return `stale_while_revalidate` in nanoseconds.
        """
        return duration_ns(self.stale_while_revalidate, "stale_while_revalidate")

    @property
    def error_ns(self) -> int:
        """
        Return `stale_if_error` in nanoseconds.
        """
        return duration_ns(self.stale_if_error, "stale_if_error")

    @property
    def retry_ns(self) -> int:
        """
        Return `retry_after` in nanoseconds.
        """
        return duration_ns(self.retry_after, "retry_after")
