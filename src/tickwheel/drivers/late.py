"""
Internal: a manual driver that also fires timers that were already due when a thread set them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

from tickwheel.drivers._manual import ManualDriver
from tickwheel.drivers.contract import is_stepped
from tickwheel.threads import RLock
from tickwheel.timers.contract import Engine

__all__ = ["LateDriver"]

_EVERY_S: Final = 0.01
"""Seconds between two checks for late timers."""


class _Series(Protocol):
    def cancel(self) -> bool: ...


class LateDriver(ManualDriver):
    """
    Fires timers when a manual clock is advanced, and also timers that were already due when a thread set them.

    Without this driver, such a timer would wait for the next advance of the clock, which a test may never make.
    *call_every* is a function, such as `TimerWheel().call_every`, that starts a series of calls in real time.
    """

    def __init__(self, call_every: Callable[[float, Callable[[], object]], _Series]) -> None:
        super().__init__()
        self._call_every = call_every
        self._firing = RLock()
        self._series: _Series | None = None

    def start(self, engine: Engine) -> None:
        """
        Attach this driver to the clock in place of *engine*. The driver then fires *engine* in one thread at a time.
        """
        self._engine = engine
        if is_stepped(engine.clock):
            engine.clock.attach(cast("Engine", self))  # a clock calls only `arm` and `fire_due`
        self._series = self._call_every(_EVERY_S, self._look)

    def stop(self) -> None:
        if self._series is not None:
            self._series.cancel()
        if self._engine is not None and is_stepped(self._engine.clock):
            self._engine.clock.detach(cast("Engine", self))

    def join(self, timeout: float | None = None) -> bool:
        is_free = self._firing.acquire(timeout=-1 if timeout is None else timeout)
        if is_free:
            self._firing.release()
        return is_free

    def arm(self) -> int | None:
        return None if self._engine is None else self._engine.arm()

    def fire_due(self, limit: int | None = None) -> int:
        with self._firing:
            return 0 if self._engine is None else self._engine.fire_due(limit)

    def _look(self) -> None:
        engine = self._engine
        if engine is not None and (deadline := engine.arm()) is not None and deadline <= engine.clock.monotonic_ns():
            self.fire_due()
