"""
TTLCache: every entry lives for the same time, unless it is set for another.
"""

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
    A mapping whose entries live for *ttl* seconds, of which the least recently used go first when room is needed.

        cache = TTLCache(maxsize=10_000, ttl=300.0)
        cache["a"] = 1
        cache.set("b", 2, ttl=5.0)

    An entry is gone exactly at its deadline: no lookup finds it from then on. It is removed, and `on_expire` called,
    when the cache is used next; with a *wheel* or *clock*, at the deadline.
    Everything is O(1). Keys may do what they like in `__hash__` and `__eq__`.

    Args:
        maxsize: How many entries there may be, or the sum of their sizes; `math.inf` for no bound, 0 to keep nothing.
        ttl: How long an entry lives, in seconds or a timedelta; `math.inf` for no end.
        timer: Returns the time, in seconds; None for the monotonic clock. One that returns datetimes needs a timedelta
            as *ttl*. For nanoseconds there is *clock*. One that turns out to count milliseconds or less, by a minute of
            the system's clock, is refused then.
        getsizeof: Returns the size of a value, 0 or more; None: each counts 1.
        sliding: Whether a lookup starts the entry's ttl again.
        jitter: By what fraction a life is shorter or longer, at random: 0.05 spreads what was set together over 10 %
            of the ttl, so that they are not all loaded again at once. A *timer* of datetimes goes without.
        on_expire: Called with key, value and `Reason.EXPIRED`, with no lock held; no coroutine function. What it raises
            is logged.
        on_evict: Called so for entries that leave before their time, with another reason.
        wheel: Expires entries on time, in its thread or loop; the cache goes by its clock.
        clock: As *wheel*: a new one on this clock.
        refresh: How loads go about values that are about to end, or have ended; None: not at all.
        max_age: How long an entry lives after it was set at most, in seconds or a timedelta, however often a lookup or
            `touch` restarts its life: with *sliding*, *ttl* is the longest idle time and this the longest time of all.
        load_timeout: How long a load may take, in seconds or a timedelta. A task is then cancelled; a thread cannot be
            ended, but nobody waits for it any more, and who asks next loads. None for no limit.

    Raises:
        ValueError: If a number is NaN, negative, or a *jitter* over 1.
        TypeError: If one is not a number, time would come from two places, *timer* returns nanoseconds, or a callback
            is a coroutine function.
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
        Return how long an entry lives unless it is set for another time.
        """
        return self._ttl

    def _shown_life(self) -> str:
        return f", ttl={self._ttl!r}"

    def _life_rules(self) -> dict[str, Any]:
        life_ns = self._span_ns(self._ttl)
        if self._clock is None or self._clock.is_numeric:
            return {"life_ns": life_ns}
        clock, timer, ttl = self._clock, self._timer, self._ttl

        def lifetime(_key: K, _value: V) -> tuple[int, int]:
            now = timer()
            return clock.to_ns(now), clock.to_ns(now + ttl)

        return {"lifetime": lifetime}
