"""
The base of a driver's tests: ways to make a wheel, to play a scenario, and to wait in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tickwheel.drivers import TimerWheel

__all__ = ["PATIENCE_S", "DriverTests", "play_here"]

PATIENCE_S: Final = 20.0
"""A wait of this many seconds means that something hangs."""


class DriverTests:
    """
    The base of a driver's tests: they get their wheels here, and wait by it.

    A scenario is a coroutine, so that the same one runs on an event loop and beside a thread.
    """

    runs_here: bool | None = None
    """Whether callbacks run in the thread of the scenario; None for a driver that does not say."""

    def now(self) -> float | None:
        """
        Return the time of the surroundings, in seconds; None if nothing else has one. From any thread.
        """
        return None

    async def clean_up(self) -> None:
        """
        Wait for a moment in a coroutine that is being cancelled; for drivers that run coroutines.
        """

    def make_wheel(self, **options: Any) -> TimerWheel:
        """
        Return a new wheel with the driver; called inside a scenario.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest passes over such classes in silence

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        """
        Run a scenario to its end.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest passes over such classes in silence

    async def until(self, signal: threading.Event) -> None:
        """
        Let time pass until the signal is set; fail after `PATIENCE_S`.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest passes over such classes in silence

    def inside(self, wheel: TimerWheel, act: Callable[[], object]) -> None:
        """
        Let *act* set timers inside a callback: none of them fires before all are set.
        """
        wheel.call_later(0, act)

    async def settle(self, wheel: TimerWheel) -> None:
        """
        Wait until a timer set now has fired: what was due before it has, by then.
        """
        signal = threading.Event()
        wheel.call_later(0, signal.set)
        await self.until(signal)


def play_here(scenario: Coroutine[Any, Any, None]) -> None:
    """
    Run a scenario in which every await ends at once.
    """
    try:
        scenario.send(None)
    except StopIteration:
        return
    scenario.close()
    message = "the scenario waits for an event loop"
    raise AssertionError(message)
