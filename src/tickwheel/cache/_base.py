"""
The base of all caches. It converts arguments; storage, expiry and eviction are native (`tickwheel._core.Cache`).
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import replace
from itertools import islice
from reprlib import recursive_repr
from typing import Any, Final, TypeVar, overload

from tickwheel.cache._alarm import Alarm
from tickwheel.cache._by_items import ITEM_METHODS, VERBS
from tickwheel.cache._loads import Loads
from tickwheel.cache._native import NativeCache
from tickwheel.cache._options import Leaving, Options
from tickwheel.cache._reason import REASONS
from tickwheel.cache._stats import CacheInfo, CacheStats, LoadStats
from tickwheel.cache._timer import CacheTimer, TimerClock, duration_ns
from tickwheel.cache._views import KEYS, RECORDS, CacheItems, CacheValues
from tickwheel.clock import NEVER, seconds
from tickwheel.drivers import TimerWheel

__all__ = ["BaseCache"]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_NOTHING: Final = object()
_SHOWN: Final = 20


class BaseCache(NativeCache[K, V]):
    """
    A bounded mapping whose entries expire automatically. `TTLCache` and `TLRUCache` determine the deadlines.

    Every method may be called from any thread. All methods are atomic, except `take` and its variants, whose loaders
    run outside of the lock.
    """

    _options: Options
    _timer: CacheTimer
    _clock: TimerClock | None
    _loads: Loads
    _since: tuple[int, int]
    _has_item_methods: bool

    def __init_subclass__(cls, **keywords: Any) -> None:
        """
        Add bulk methods that call item methods, if a subclass overrides item methods but has no bulk methods.
        """
        super().__init_subclass__(**keywords)
        if not cls.__module__.startswith("tickwheel.cache") and ITEM_METHODS & vars(cls).keys():
            for name, verb in VERBS.items():
                if name not in vars(cls):
                    setattr(cls, name, verb)

    def _begin(self, options: Options, getsizeof: Callable[[V], float] | None) -> None:
        if getsizeof is not None:
            self.getsizeof = getsizeof  # type: ignore[method-assign, assignment]
        _register_with_cachetools()
        self._options = options
        self._loads = Loads(options.refresh, options.load_timeout_s)
        self._since = (0, 0)
        wheel = TimerWheel(clock=options.clock) if options.clock is not None else options.wheel
        self._wheel = wheel
        clock: Any = None
        self._clock = None
        if wheel is not None:
            clock = wheel.clock
            self._timer = CacheTimer(wheel.time)
        else:
            self._timer = CacheTimer(options.timer or time.monotonic)
            if options.timer is not None and options.timer is not time.monotonic:
                clock = self._clock = TimerClock(self._timer)
        self._has_item_methods = any(getattr(type(self), name) is not getattr(BaseCache, name) for name in ITEM_METHODS)
        if self._has_item_methods and options.refresh is not None:
            message = f"{type(self).__name__} has item methods of its own: a cache with refresh= cannot go through them"
            raise TypeError(message)
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
            has_item_methods=self._has_item_methods,
            grace_ns=self._loads.grace_ns,
            max_age_ns=NEVER if options.max_age is None else self._span_ns(options.max_age, "max_age"),
            **self._life_rules(),
        )
        if wheel is not None:
            self._disarm()

    @abstractmethod
    def _life_rules(self) -> dict[str, Any]:
        """
        Return the lifetime of entries as keyword arguments of `_open`: `life_ns` or `lifetime`.

        `lifetime` is a function of key and value. It returns the current time and the lifetime, in nanoseconds.
        """

    @staticmethod
    def getsizeof(value: Any) -> float:  # noqa: ARG004 - a subclass may use it
        """
        Return the size of a value, in the unit of *maxsize*; 1 unless a subclass or an argument overrides it.
        """
        return 1

    @property
    def maxsize(self) -> float:
        """
        Return the maximum of `currsize`.
        """
        return self._options.maxsize

    @property
    def currsize(self) -> float:
        """
        Return the sum of the sizes of all values. It is a sum of floats, exact up to 2**53.
        """
        size = self._size()
        return int(size) if size.is_integer() else size

    @property
    def timer(self) -> CacheTimer:
        """
        Return the time function.
        """
        return self._timer

    def __missing__(self, key: K) -> V:
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        """
        Iterate over the current keys, least recently used first. This does not count as a use.

        Keys that leave, expire or are added during the iteration are not yielded.
        """
        return self._iterate(KEYS)

    def items(self) -> ItemsView[K, V]:
        """
        Return a view of keys and values, which iterates like `__iter__`.
        """
        return CacheItems(self, self._iterate, self._find_loaded)

    def values(self) -> ValuesView[V]:
        """
        Return a view of the values, which iterates like `__iter__`.
        """
        return CacheValues(self, self._iterate)

    @recursive_repr()
    def __repr__(self) -> str:
        items = [f"{key!r}: {value!r}" for key, value in islice(self.items(), _SHOWN + 1)]
        shown = ", ".join([*items[:_SHOWN], "..."] if len(items) > _SHOWN else items)
        size = f"maxsize={self.maxsize!r}, currsize={self.currsize!r}"
        return f"{type(self).__name__}({{{shown}}}, {size}{self._shown_life()})"

    def _shown_life(self) -> str:
        return ""

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V) -> V: ...
    @overload
    def pop(self, key: K, default: D) -> V | D: ...
    def pop(self, key: K, default: Any = _NOTHING) -> Any:
        """
        Remove *key* and return its value. If *key* is missing, return *default*; without a *default*, raise KeyError.
        """
        value = self._pop(key, default)
        if value is _NOTHING:
            raise KeyError(key)
        return value

    def popitem(self) -> tuple[K, V]:
        """
        Remove and return the least recently used key with its value.

        If a subclass overrides this method, each eviction calls it. An empty cache raises a KeyError.
        """
        item = self._pop_least()
        if item is None:
            message = f"{type(self).__name__} is empty"
            raise KeyError(message) from None
        return item

    def expire(self, time: Any = None) -> list[tuple[K, V]]:
        """
        Remove all expired entries and return them, sorted by deadline.

        *time* replaces the current time, in the units of `timer`. If a subclass overrides this method, each set calls
        it.
        """
        return self._expire(None if time is None else self._time_ns(time))

    def remaining(self, key: K) -> float | None:
        """
        Return the remaining lifetime of *key* in seconds: `inf` if unlimited, None if missing.

        This does not count as a use.
        """
        left = self._remaining_ns(key)
        return None if left is None else seconds(left)

    def take(self, key: K, loader: Callable[[K], V]) -> V:
        """
        Return the value of *key*. If it is missing, call `loader(key)`, store the result and return it.

        If several threads and tasks miss a key, here or in `take_async`, one of them calls its loader, and all others
        wait. If the loader raises an error, each of these callers raises a copy of the error, and nothing is stored. A
        KeyboardInterrupt or the like is raised only in the loading thread, and another caller then loads the key. A
        value that does not fit is returned but not stored. If the key was set during the load, the newer value is
        returned, and the loaded value is not stored. If the key was removed during the load, or expired by `touch`, the
        loaded value is returned but not stored. A loader may return a `Loaded`, which has a value and its lifetime.

        Raises:
            ReentrantError: If the loader takes the key that it is loading.
            LoadTimeoutError: If another thread or task needs longer than the cache's `load_timeout` to load the key.
        """
        if not self._loads.has_rules:
            value: Any = self.get(key, _NOTHING)
            if value is not _NOTHING:
                return value  # type: ignore[no-any-return]
        return self._loads.take_one(self, key, loader)  # type: ignore[no-any-return]

    async def take_async(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        """
        Return the value of *key*. If it is missing, await `loader(key)`, store the result and return it.

        The load is a separate task, shared as in `take`. If a waiting task is cancelled, the load continues for all
        other waiters. If no waiter is left, or after the cache's `load_timeout`, the load is cancelled. If the loader
        itself raises an exception that is not an `Exception`, such as a cancellation, all waiting tasks of the same
        loop raise it. The errors are those of `take`.
        """
        if not self._loads.has_rules:
            value: Any = self.get(key, _NOTHING)
            if value is not _NOTHING:
                return value  # type: ignore[no-any-return]
        return await self._loads.take_one_async(self, key, loader)  # type: ignore[no-any-return]

    def take_many(self, keys: Iterable[K], loader: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """
        Return a dict of the values of *keys*. Load the missing values together, each once, and store them.

        *loader* is called at most once, with the list of missing keys that no other caller is loading. It returns a
        mapping of the keys that it has found. Keys that it has not found are neither returned nor stored.

        Raises:
            ReentrantError: If the loader takes a key that it is loading.
            TypeError: If the loader does not return a mapping.
        """
        return self._loads.take(self, keys, loader)

    async def take_many_async(
        self, keys: Iterable[K], loader: Callable[[list[K]], Awaitable[Mapping[K, V]]]
    ) -> dict[K, V]:
        """
        Return a dict of the values of *keys*. Load all missing values in one call of an async *loader*, and store them.

        The rules are those of `take_many` and, for the loading task, those of `take_async`.
        """
        return await self._loads.take_async(self, keys, loader)

    def stats(self) -> CacheStats:
        hits, misses, left = self._counts()
        evictions = dict(zip(REASONS[1:], left[1:], strict=True))
        return CacheStats(hits, misses, left[0], evictions, LoadStats(**self._loads.tally))

    def _info(self) -> CacheInfo:
        hits, misses, _ = self._counts()
        return CacheInfo(hits - self._since[0], misses - self._since[1], self.maxsize, self.currsize)

    def _restart_info(self) -> None:
        self._since = self._counts()[:2]

    def _find_loaded(self, key: Any) -> tuple[Any] | None:
        if self._has_item_methods:  # use the item methods of the subclass
            return (self[key],) if key in self else None
        value = self.peek(key, _NOTHING)
        return None if value is _NOTHING else (value,)

    def _now_ns(self) -> int:
        return self._time_ns(self._timer())

    def _time_ns(self, reading: Any) -> int:
        if self._clock is not None:
            return self._clock.to_ns(reading)
        return duration_ns(reading, "time", is_signed=True)

    def _span_ns(self, duration: Any, name: str = "ttl") -> int:
        return duration_ns(duration, name) if self._clock is None else self._clock.life_ns(duration, name)

    def __getstate__(self) -> dict[str, Any]:
        """
        Return the state without wheel and clock. It has remaining lifetimes, which any process can use, not deadlines.
        """
        ours = ("_options", "_timer", "_clock", "_loads", "_since", "_wheel", "_has_item_methods")
        state: Any = super().__getstate__()
        attributes, slots = state if isinstance(state, tuple) else (state, {})
        return {
            "options": replace(self._options, wheel=None, clock=None),
            "attributes": {name: value for name, value in attributes.items() if name not in ours},
            "slots": slots,
            "records": list(self._iterate(RECORDS)),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["attributes"])
        for name, value in state["slots"].items():
            setattr(self, name, value)
        self._begin(state["options"], None)
        for key, value, life_ns, left_ns, most_ns in state["records"]:
            self._restore(key, value, min(life_ns, NEVER), left_ns, most_ns)


def _register_with_cachetools() -> None:
    base = getattr(sys.modules.get("cachetools"), "Cache", None)
    if base is not None and not issubclass(BaseCache, base):
        base.register(BaseCache)
