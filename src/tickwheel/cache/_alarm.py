from __future__ import annotations

import contextlib
import math
import weakref
from typing import Any, Final

from tickwheel import _core
from tickwheel.cache._flight import held
from tickwheel.clock import seconds, to_deadline
from tickwheel.drivers import TimerWheel
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Timer
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.proxy import TimerProxy
from tickwheel.typing import Callback

__all__ = ["Alarm"]

BATCH: Final = 4096
"""Maximum number of entries that expire in one turn. Such a turn takes about half a millisecond."""

_AGAIN_S: Final = 0.05
"""Seconds until the cache tries again to remove expired entries, if the wheel's executor was full."""


class Alarm(TimerProxy):
    """
    Removes expired entries of a cache when a timer of *wheel* fires. An alarm does not keep its cache alive.

    After the wheel is closed, the cache still expires entries when it is used.
    """

    def __init__(self, cache: _core.Cache, wheel: TimerWheel) -> None:
        self._wheel = wheel
        self._timer: Timer | None = None
        self._cache = weakref.ref(cache, self._end)
        self._lock = new_lock(OUTER)
        call_after_fork(self)

    def set(self) -> None:
        try:
            held(self._lock, self._set)  # the lock ensures that the earliest deadline is set last
        except BaseException:
            self._forget()
            raise

    def _set(self) -> None:
        cache = self._cache()
        deadline = None if cache is None else cache._arm()
        if deadline is None:
            return
        when = seconds(deadline)
        if to_deadline(when) < deadline:  # after months of uptime a float no longer distinguishes nanoseconds
            when = math.nextafter(when, math.inf)
        if self._timer is None or not self._timer.reschedule(when):
            with contextlib.suppress(ClosedError):
                self._timer = self._wheel.call_at(when, self)

    def after_fork(self) -> None:
        self.ended()

    def __call__(self) -> None:
        cache = self._cache()
        if cache is not None:
            cache._purge(limit=BATCH)
        self.set()

    def failed(self) -> None:
        # try again after any error, so that the expiry continues
        self.set()

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        return self, ()

    def ended(self) -> None:
        held(self._lock, self._forget)

    def _forget(self) -> None:
        self._timer = None
        cache = self._cache()
        if cache is not None:
            cache._disarm()

    def refused(self) -> None:
        # try again soon, because a full pool must not end the expiry
        held(self._lock, self._restart)

    def _restart(self) -> None:
        if self._timer is not None:
            self._timer.restart(_AGAIN_S)

    def _end(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
