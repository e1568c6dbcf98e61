"""
The base of all caches: a mapping whose entries expire automatically.

Storage, expiry and eviction are native (`tickwheel._core.Cache`); here the arguments get their meaning, and here is
what is not worth native code.
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
"""So many items a repr shows."""


class BaseCache(NativeCache[K, V]):
    """
    A bounded mapping whose entries expire automatically; `TTLCache` and `TLRUCache` say when.

    Every method may be called from any thread; each is one step, whatever other threads do meanwhile.
    `take` and its variants are the exception: their loaders run outside.
    """

    _options: Options
    _timer: CacheTimer
    _clock: TimerClock | None
    _loads: Loads
    _since: tuple[int, int]
    _has_item_methods: bool

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
            max_age_ns=NEVER if options.max_age is None else duration_ns(options.max_age, "max_age"),
            **self._life_rules(),
        )
        if wheel is not None:
            self._disarm()

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
        Return the size of all values together; sizes are added up as floats, which is exact up to 2**53.
        """
        size = self._size()
        return int(size) if size.is_integer() else size

    @property
    def timer(self) -> CacheTimer:
        """
        Return the function that returns the time.
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
        return CacheItems(self, self._iterate, self._find_loaded)

    def values(self) -> ValuesView[V]:
        """
        Return a view of the values; going through it is as `__iter__`.
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
        Remove *key* and return its value, or *default*; without one, raise KeyError.
        """
        value = self._pop(key, default)
        if value is _NOTHING:
            raise KeyError(key)
        return value

    def popitem(self) -> tuple[K, V]:
        """
        Remove the key used longest ago, and return it with its value.

        A subclass with its own `popitem` has it called for each eviction.

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
        Return how many seconds *key* still lives, `inf` if it never expires, None if it is not there; no use of it.
        """
        left = self._remaining_ns(key)
        return None if left is None else seconds(left)

    def take(self, key: K, loader: Callable[[K], V]) -> V:
        """
        Return the value of *key*; where there is none, that of `loader(key)`, which is then kept.

        Of all threads and tasks that miss a key, here or in `take_async`, one calls its loader, and the others wait.
        What it raises is raised in all of them, in each a copy, and nothing is kept; only a KeyboardInterrupt and its
        like stays with its thread, and another one loads. A value that does not fit in is returned and not kept. Nor is
        one whose key was set, removed or touched to death while it was loaded: then the value that was set is returned,
        and who asks after that does not get the older one. A loader may return a `Loaded`, a value with a lifetime of
        its own.

        Raises:
            ReentrantError: If the loader takes the key that it is loading.
            LoadTimeoutError: If another thread or task takes longer to load it than the cache's `load_timeout`.
        """
        if not self._loads.has_rules:
            value: Any = self.get(key, _NOTHING)
            if value is not _NOTHING:
                return value  # type: ignore[no-any-return]
        return self._loads.take_one(self, key, loader)  # type: ignore[no-any-return]

    async def take_async(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        """
        Return the value of *key*; where there is none, that of `await loader(key)`, which is then kept.

        The load is a task of its own, shared as that of `take`. A cancellation from inside the loader, and whatever
        else is not an Exception, is raised in all tasks of the loop. A task that is cancelled while it waits leaves the
        load to the others; with the last one the load is cancelled, as it is after the cache's `load_timeout`. Errors
        are those of `take`.
        """
        if not self._loads.has_rules:
            value: Any = self.get(key, _NOTHING)
            if value is not _NOTHING:
                return value  # type: ignore[no-any-return]
        return await self._loads.take_one_async(self, key, loader)  # type: ignore[no-any-return]

    def take_many(self, keys: Iterable[K], loader: Callable[[list[K]], Mapping[K, V]]) -> dict[K, V]:
        """
        Return a dict of the values of *keys*; those that are missing are loaded together, and kept.

        Args:
            keys: Which; each once.
            loader: Called at most once, with the list of keys that are missing and that nobody else is loading; returns
                a mapping of those that it has found. The others are not in the result, and not kept.

        Raises:
            ReentrantError: If the loader takes a key that it is loading.
            TypeError: If the loader returns no mapping.
        """
        return self._loads.take(self, keys, loader)

    async def take_many_async(
        self, keys: Iterable[K], loader: Callable[[list[K]], Awaitable[Mapping[K, V]]]
    ) -> dict[K, V]:
        """
        Return a dict of the values of *keys*; those that are missing are loaded together by a loader that is awaited.

        Otherwise as `take_many`, and as `take_async`.
        """
        return await self._loads.take_async(self, keys, loader)

    def stats(self) -> CacheStats:
        """
        Return the counts.
        """
        hits, misses, left = self._counts()
        evictions = dict(zip(REASONS[1:], left[1:], strict=True))
        return CacheStats(hits, misses, left[0], evictions, LoadStats(**self._loads.tally))

    def _info(self) -> CacheInfo:
        """
        Return hits and misses, since `cached`'s `cache_clear` if that was called, with maxsize and currsize.
        """
        hits, misses, _ = self._counts()
        return CacheInfo(hits - self._since[0], misses - self._since[1], self.maxsize, self.currsize)

    def _restart_info(self) -> None:
        """
        Let `_info` count from 0.
        """
        self._since = self._counts()[:2]

    def _find_loaded(self, key: Any) -> tuple[Any] | None:
        """
        Return `(value,)` if *key* has one, else None, and count nothing: for the loads of `take`.
        """
        if self._has_item_methods:  # then they count
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
        return duration_ns(duration, name)

    def __getstate__(self) -> dict[str, Any]:
        """
        Return what a pickle needs: the lives that are left, since no two machines share a monotonic clock.

        The copy expires when it is used: a wheel or clock stays with its process.
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
        """
        Begin with what `__getstate__` has returned.
        """
        vars(self).update(state["attributes"])
        for name, value in state["slots"].items():
            setattr(self, name, value)
        self._begin(state["options"], None)
        for key, value, life_ns, left_ns, most_ns in state["records"]:
            self._restore(key, value, min(life_ns, NEVER), left_ns, most_ns)


def _register_with_cachetools() -> None:
    """
    Let ours be caches of cachetools, whose decorators ask, if anybody has imported that; it is not imported here.
    """
    base = getattr(sys.modules.get("cachetools"), "Cache", None)
    if base is not None and not issubclass(BaseCache, base):
        base.register(BaseCache)
