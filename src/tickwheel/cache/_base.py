"""
What all caches are: a mapping whose entries end by themselves.

Storage, expiry and eviction are native (`tickwheel._core.Cache`); here the arguments get their meaning, and here is
what is not worth native code.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, ItemsView, Iterator, MutableMapping, ValuesView
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from tickwheel import _core
from tickwheel.cache._alarm import Alarm
from tickwheel.cache._by_items import ITEM_METHODS, VERBS
from tickwheel.cache._flights import Flights
from tickwheel.cache._options import Leaving, Options
from tickwheel.cache._reason import REASONS
from tickwheel.cache._stats import CacheStats
from tickwheel.cache._timer import CacheTimer, TimerClock, duration_ns
from tickwheel.cache._views import KEYS, RECORDS, CacheItems, CacheValues
from tickwheel.clock import NEVER, seconds
from tickwheel.drivers import TimerWheel

__all__ = ["BaseCache"]

K = TypeVar("K")
V = TypeVar("V")

_NOTHING: Final = object()


class BaseCache(_core.Cache, MutableMapping[K, V]):
    """
    A bounded mapping whose entries end by themselves; `TTLCache` and `TLRUCache` say when.

    Every method may be called from any thread; each is one step, whatever other threads do meanwhile.
    `take` is the exception, whose loader runs outside.
    """

    _options: Options
    _timer: CacheTimer
    _clock: TimerClock | None

    def __init_subclass__(cls, **keywords: Any) -> None:
        """
        Give a subclass with item methods of its own the verbs that go through them.
        """
        super().__init_subclass__(**keywords)
        if not cls.__module__.startswith("tickwheel.cache") and ITEM_METHODS & vars(cls).keys():
            for name, verb in VERBS.items():
                if name not in vars(cls):
                    setattr(cls, name, verb)

    def _begin(self, options: Options, getsizeof: Callable[[V], float] | None) -> None:
        if getsizeof is not None:
            self.getsizeof = getsizeof  # type: ignore[method-assign, assignment]
        self._options = options
        self._flights = Flights()
        wheel = TimerWheel(clock=options.clock) if options.clock is not None else options.wheel
        self._wheel = wheel
        clock: Any = None
        self._clock = None
        if wheel is not None:
            clock = wheel.clock
            self._timer = CacheTimer(wheel.time)
        else:
            self._timer = CacheTimer(options.timer or time.monotonic)
            if options.timer not in {None, time.monotonic}:
                clock = self._clock = TimerClock(self._timer)
        has_callbacks = options.on_expire is not None or options.on_evict is not None
        self._open(
            float(options.maxsize),
            clock=clock,
            is_sliding=options.sliding,
            jitter=float(options.jitter),
            sizer=None if self.getsizeof is BaseCache.getsizeof else self.getsizeof,
            on_leave=Leaving(options) if has_callbacks else None,
            on_earlier=Alarm(self, wheel).set if wheel is not None else None,
            is_overridden=type(self).expire is not BaseCache.expire or type(self).popitem is not BaseCache.popitem,
            **self._life_rules(),
        )
        if wheel is not None:
            self.disarm()

    @abstractmethod
    def _life_rules(self) -> dict[str, Any]:
        """
        Return how long entries live, as keywords of `_open`.

        That is `life_ns`, or `lifetime`, a function of key and value that returns time and deadline in nanoseconds.
        """

    @staticmethod
    def getsizeof(value: Any) -> float:  # noqa: ARG004 - a subclass looks at it
        """
        Return how much of maxsize a value takes: 1, unless a subclass or the argument of this name says otherwise.
        """
        return 1

    @property
    def maxsize(self) -> float:
        """
        Return the bound of `currsize`.
        """
        return self._options.maxsize

    @property
    def currsize(self) -> float:
        """
        Return the size of all values together.
        """
        size = self._size()
        return int(size) if size.is_integer() else size

    @property
    def timer(self) -> CacheTimer:
        """
        Return what tells the time: call it.
        """
        return self._timer

    def __missing__(self, key: K) -> V:
        """
        Be asked for the value of a key that is not there, by `cache[key]` alone; a subclass may have an answer.
        """
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        """
        Go through the keys that are there now, the one used longest ago first.

        What leaves or expires before its turn is left out, what is added meanwhile too. No use of a key.
        """
        return self._iterate(KEYS)

    def items(self) -> ItemsView[K, V]:
        """
        Return a view of keys and values; going through it is as `__iter__`.
        """
        return CacheItems(self, self._iterate, self.peek)

    def values(self) -> ValuesView[V]:
        """
        Return a view of the values; going through it is as `__iter__`.
        """
        return CacheValues(self, self._iterate)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self.items())!r}, maxsize={self.maxsize!r}, currsize={self.currsize!r})"

    def set(self, key: K, value: V, ttl: float | timedelta | None = None) -> None:
        """
        Set *key* to *value*, for a life of its own.

        Args:
            key: Anything that can be hashed.
            value: Anything.
            ttl: Seconds, or what the timer counts in; None for the cache's own rule.

        Raises:
            ValueError: If *ttl* is NaN or negative.
            ValueTooLargeError: If the value alone is larger than maxsize.
        """
        if ttl is None:
            self[key] = value
        else:
            self._put(key, value, self._span_ns(ttl))

    def pop(self, key: K, default: Any = _NOTHING) -> Any:
        """
        Remove *key* and return its value, or *default*; without one, raise KeyError.
        """
        value = self._pop(key, default)
        if value is _NOTHING:
            raise KeyError(key)
        return value

    def popitem(self) -> tuple[K, V]:
        """
        Remove the key used longest ago, and return it with its value.

        A subclass with its own `popitem` has it called for every eviction.

        Raises:
            KeyError: If the cache is empty.
        """
        item = self._pop_least()
        if item is None:
            message = f"{type(self).__name__} is empty"
            raise KeyError(message) from None
        return item

    def expire(self, time: Any = None) -> list[tuple[K, V]]:
        """
        Remove what has expired and return it, in order of the deadlines.

        A subclass with its own `expire` has it called before every set.

        Args:
            time: As of when, by `timer`; None for now.
        """
        return self._expire(None if time is None else self._time_ns(time))

    def remaining(self, key: K) -> float | None:
        """
        Return how many seconds *key* still lives, `inf` for ever, None if it is not there; no use of it.
        """
        left = self.remaining_ns(key)
        return None if left is None else seconds(left)

    def touch(self, key: K, ttl: float | timedelta | None = None) -> bool:
        """
        Begin the life of *key* anew, which is a use of it.

        Args:
            key: Which.
            ttl: How long it lives from now; None for as long as it was given.

        Returns:
            Whether it was there.
        """
        return self._touch(key, None if ttl is None else self._span_ns(ttl))

    def take(self, key: K, loader: Callable[[K], V]) -> V:
        """
        Return the value of *key*; where there is none, that of `loader(key)`, which is then kept.

        Of several threads that miss a key one calls its loader, the others wait. What it raises is raised in all of
        them, and nothing is kept; only a KeyboardInterrupt and its like stays with its thread, and another one loads.

        Raises:
            ReentrantError: If the loader takes the key that it is loading.
            ValueTooLargeError: If the loaded value is larger than maxsize.
        """
        value: Any = self.get(key, _NOTHING)
        return self._flights.load(self, key, loader) if value is _NOTHING else value  # type: ignore[no-any-return]

    async def take_async(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        """
        Return the value of *key*; where there is none, that of `await loader(key)`, which is then kept.

        Of several tasks that miss a key on one event loop one load is shared. What it raises is raised in all of
        them, a cancellation from inside the loader too, and nothing is kept. A task that is cancelled while it waits
        leaves the load to the others; with the last one the load is cancelled. Errors are those of `take`.
        """
        value: Any = self.get(key, _NOTHING)
        return await self._flights.load_async(self, key, loader) if value is _NOTHING else value  # type: ignore[no-any-return]

    def stats(self) -> CacheStats:
        """
        Return the counts.
        """
        hits, misses, left = self._counts()
        evictions = dict(zip(REASONS[1:], left[1:], strict=True))
        return CacheStats(hits, misses, left[0], evictions)

    def find_loaded(self, key: Any) -> tuple[Any] | None:
        """
        Return `(value,)` if *key* has one, else None, and count nothing: for the loads of `take`.
        """
        value = self.peek(key, _NOTHING)
        return None if value is _NOTHING else (value,)

    def _time_ns(self, reading: Any) -> int:
        if self._clock is not None:
            return self._clock.to_ns(reading)
        return duration_ns(reading, "time", is_signed=True)

    def _span_ns(self, duration: Any, name: str = "ttl") -> int:
        if self._clock is not None:
            return self._clock.span_ns(duration, name)
        return duration_ns(duration, name)

    def __getstate__(self) -> dict[str, Any]:
        """
        Return what a pickle needs: the lives that are left, since no two machines share a monotonic clock.

        The copy expires when it is used: a wheel or clock stays with its process.
        """
        ours = ("_options", "_timer", "_clock", "_flights", "_wheel")
        return {
            "options": replace(self._options, wheel=None, clock=None),
            "timer": self._timer if self._clock is not None else None,
            "attributes": {name: value for name, value in vars(self).items() if name not in ours},
            "records": list(self._iterate(RECORDS)),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """
        Begin with what `__getstate__` has returned.
        """
        vars(self).update(state["attributes"])
        timer = state["timer"]
        options = state["options"]
        self._begin(options if timer is None else replace(options, timer=timer), None)
        for key, value, life_ns, left_ns in state["records"]:
            self._restore(key, value, min(life_ns, NEVER), left_ns)
