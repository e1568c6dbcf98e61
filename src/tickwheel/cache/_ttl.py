from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tickwheel.cache._base import BaseCache
from tickwheel.cache._options import Options
from tickwheel.cache._reason import Reason
from tickwheel.cache._refresh import Refresh
from tickwheel.clock import Clock
from tickwheel.drivers import TimerWheel
from tickwheel.typing import Seconds

__all__ = ["TTLCache"]

K = TypeVar("K")
V = TypeVar("V")


class TTLCache(BaseCache[K, V]):
    """
    A mapping whose entries live for *ttl* seconds. If it is full, the least recently used entry is evicted.

        cache = TTLCache(maxsize=10_000, ttl=300.0)
        cache["a"] = 1
        cache.set("b", 2, ttl=5.0)

    An entry expires exactly at its deadline: lookups no longer find it. The entry is removed, and `on_expire` is
    called, when the cache is used next, or, with a *wheel* or *clock*, at the deadline.

    Every operation is O(1). `__hash__` and `__eq__` of keys may use the cache.

    Args:
        maxsize: Maximum number of entries, or maximum sum of their sizes; `math.inf` for no limit, 0 to store nothing.
        ttl: Lifetime of an entry, in seconds or a timedelta; `math.inf` for no end.
        timer: Returns the time, in seconds or as a datetime of Python, NumPy or pandas; None for the monotonic clock.
            If the timer counts in another unit, every lifetime here is in that unit, up to 2**62 / 10**9 units; for
            nanoseconds, use *clock*.
        getsizeof: Returns the size of a value, 0 or more; None: each value counts 1.
        sliding: True if a lookup restarts the entry's ttl.
        jitter: Maximum fraction by which a lifetime is randomly shorter or longer. 0.05 spreads entries that were set
            together over 10 % of the ttl, so that they are not all loaded again at once. Jitter is not allowed with
            a *timer* of datetimes.
        on_expire: Called with key, value and `Reason.EXPIRED`, without a lock. It must not be a coroutine function. Its
            errors are logged.
        on_evict: Called like `on_expire`, but for entries that leave before their deadline.
        wheel: A wheel that expires entries on time, in its thread or loop. The cache uses its clock.
        clock: A clock for a new wheel that expires entries on time.
        refresh: Rules for values that are about to expire, or have expired; None for no rules.
        max_age: Maximum lifetime of an entry after it was set, in seconds or a timedelta, even if lookups or `touch`
            restart the ttl. If *sliding* is True, *ttl* is the idle timeout, and *max_age* the absolute one.
        load_timeout: Maximum time of a load, in seconds or a timedelta; None for no limit. After this time, a task is
            cancelled. A thread cannot be ended, but callers stop waiting for it, and the next caller loads.

    Raises:
        ValueError: If a number is NaN or negative, *jitter* is over 1, or, in a cache with a *timer*, a finite lifetime
            is over 2**62 / 10**9 units (146 years in seconds).
        TypeError: If a number has a wrong type, several sources of time are given, *timer* returns nanoseconds, or a
            callback is a coroutine function.
    """

    def __init__(
        self,
        maxsize: float,
        ttl: Seconds,
        timer: Callable[[], Any] | None = None,
        getsizeof: Callable[[V], float] | None = None,
        *,
        sliding: bool = False,
        jitter: float = 0.0,
        on_expire: Callable[[K, V, Reason], object] | None = None,
        on_evict: Callable[[K, V, Reason], object] | None = None,
        wheel: TimerWheel | None = None,
        clock: Clock | None = None,
        refresh: Refresh | None = None,
        max_age: Seconds | None = None,
        load_timeout: Seconds | None = None,
    ) -> None:
        self._ttl = ttl
        options = Options(
            maxsize, timer, jitter, sliding, on_expire, on_evict, wheel, clock, refresh, max_age, load_timeout
        )
        self._begin(options, getsizeof)

    @property
    def ttl(self) -> Any:
        """
        Return the default lifetime of an entry.
        """
        return self._ttl

    def _shown_life(self) -> str:
        return f", ttl={self._ttl!r}"

    def _life_rules(self) -> dict[str, Any]:
        return {"life_ns": self._span_ns(self._ttl)}
