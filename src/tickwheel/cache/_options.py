from __future__ import annotations

import inspect
import math
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from tickwheel.cache._reason import REASONS, Reason
from tickwheel.cache._refresh import Refresh
from tickwheel.cache._timer import duration_ns
from tickwheel.clock import NEVER, Clock, seconds
from tickwheel.drivers import TimerWheel
from tickwheel.timers.engine import log_error
from tickwheel.typing import Seconds

__all__ = ["Leaving", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """
    The options of a cache; see `TTLCache` and `TLRUCache`. An invalid option raises a ValueError or TypeError.
    """

    maxsize: float
    timer: Callable[[], Any] | None = None
    jitter: float = 0.0
    sliding: bool = False
    on_expire: Callable[[Any, Any, Reason], object] | None = None
    on_evict: Callable[[Any, Any, Reason], object] | None = None
    wheel: TimerWheel | None = None
    clock: Clock | None = None
    refresh: Refresh | None = None
    max_age: Seconds | None = None
    load_timeout: Seconds | None = None

    @property
    def load_timeout_s(self) -> float | None:
        if self.load_timeout is None or (ns := duration_ns(self.load_timeout, "load_timeout")) >= NEVER:
            return None
        return seconds(ns)

    def __post_init__(self) -> None:
        _check_number("maxsize", self.maxsize, "math.inf for no bound")
        if math.isnan(self.maxsize) or self.maxsize < 0:
            message = f"maxsize is {self.maxsize!r}: it must be non-negative, pass math.inf for no bound"
            raise ValueError(message)
        _check_number("jitter", self.jitter, "a fraction such as 0.05")
        if not 0 <= self.jitter <= 1:
            message = f"jitter is {self.jitter!r}: pass a fraction of the ttl in 0..1, such as 0.05"
            raise ValueError(message)
        if self.refresh is not None and not isinstance(self.refresh, Refresh):
            message = f"refresh is {self.refresh!r}: pass a tickwheel.cache.Refresh"
            raise TypeError(message)
        for name in ("max_age", "load_timeout"):
            if getattr(self, name) is not None and not duration_ns(getattr(self, name), name):
                message = f"{name} is {getattr(self, name)!r}: pass more than 0, or None for no limit"
                raise ValueError(message)
        for name in ("on_expire", "on_evict"):
            _check_callback(name, getattr(self, name))
        sources = [name for name in ("timer", "wheel", "clock") if getattr(self, name) is not None]
        if len(sources) > 1:
            message = f"time would come from {' and '.join(sources)}: pass one of them"
            raise TypeError(message)


def _check_callback(name: str, callback: object) -> None:
    if callback is None:
        return
    if not callable(callback):
        message = f"{name} is {callback!r}: pass something that can be called"
        raise TypeError(message)
    if inspect.iscoroutinefunction(callback):
        message = (
            f"{name} is {callback!r}, which makes a coroutine, and a cache awaits none, since entries leave in any "
            "thread: pass a function, which may hand a coroutine to a loop"
        )
        raise TypeError(message)


def _check_number(name: str, value: object, remedy: str) -> None:
    if not isinstance(value, Real):
        message = f"{name} is {value!r}: pass a number, {remedy}"
        raise TypeError(message)
    try:
        float(value)
    except OverflowError:
        message = f"{name} is {reprlib.repr(value)}, past all floats: pass {remedy}"
        raise ValueError(message) from None


class Leaving:
    """
    Calls `on_expire` or `on_evict` for each entry that has left the cache, and logs errors of these callbacks.
    """

    def __init__(self, options: Options) -> None:
        self._callbacks = (options.on_expire, *(options.on_evict for _ in REASONS[1:]))

    def __call__(self, key: Any, value: Any, code: int) -> None:
        callback = self._callbacks[code]
        if callback is not None:
            try:
                callback(key, value, REASONS[code])
            except Exception as error:  # noqa: BLE001 - see the class
                log_error(error, callback)
