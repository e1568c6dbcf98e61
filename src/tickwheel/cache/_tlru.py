from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tickwheel.cache._base import BaseCache
from tickwheel.cache._options import Options
from tickwheel.cache._reason import Reason
from tickwheel.cache._refresh import Refresh
from tickwheel.cache._timer import life_between
from tickwheel.clock import Clock
from tickwheel.drivers import TimerWheel
from tickwheel.typing import Seconds

__all__ = ["TLRUCache"]

K = TypeVar("K")
V = TypeVar("V")


class TLRUCache(BaseCache[K, V]):
    """
    Like `TTLCache`, but a function determines the deadline of each entry.

        cache = TLRUCache(maxsize=100, ttu=lambda key, answer, now: now + answer.max_age)

    *ttu* is called with key, value and the current time of *timer*. It returns the deadline in the same units. If the
    deadline is not after the current time, the value is not stored, and the key is removed. *timer* returns the time;
    None for the monotonic clock in seconds. The other arguments are those of `TTLCache`.

    Raises:
        ValueError: If *maxsize* is NaN or negative.
        TypeError: If *maxsize* is not a number, *ttu* is not callable, or several sources of time are given.
    """

    def __init__(
        self,
        maxsize: float,
        ttu: Callable[[K, V, Any], Any],
        timer: Callable[[], Any] | None = None,
        getsizeof: Callable[[V], float] | None = None,
        *,
        on_expire: Callable[[K, V, Reason], object] | None = None,
        on_evict: Callable[[K, V, Reason], object] | None = None,
        wheel: TimerWheel | None = None,
        clock: Clock | None = None,
        refresh: Refresh | None = None,
        load_timeout: Seconds | None = None,
    ) -> None:
        if not callable(ttu):
            message = f"ttu is {ttu!r}: pass a function of key, value and time that returns the deadline"
            raise TypeError(message)
        self._ttu = ttu
        options = Options(
            maxsize,
            timer,
            on_expire=on_expire,
            on_evict=on_evict,
            wheel=wheel,
            clock=clock,
            refresh=refresh,
            load_timeout=load_timeout,
        )
        self._begin(options, getsizeof)

    @property
    def ttu(self) -> Callable[[K, V, Any], Any]:
        """
        Return the function that determines the deadline of an entry.
        """
        return self._ttu

    def _life_rules(self) -> dict[str, Any]:
        clock, timer, ttu = self._clock, self._timer, self._ttu

        def lifetime(key: K, value: V) -> tuple[int, int]:
            now = timer()
            return life_between(clock, now, ttu(key, value, now))

        return {"lifetime": lifetime}
