from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from tickwheel.drivers import TimerWheel

__all__ = ["PATIENCE_S", "DriverTests", "play_here"]

PATIENCE_S: Final = 20.0
"""Maximum wait in seconds. A longer wait means that something hangs."""


class DriverTests:
    """
    Base class of a driver's tests: makes wheels, runs scenarios, and waits.

    A scenario is a coroutine, so that it can run on an event loop or in a thread.
    """

    runs_here: bool | None = None
    """True if callbacks run in the thread of the scenario, False if in another thread, None if both may happen."""

    def now(self) -> float | None:
        """
        Return the event loop's time in seconds, or None if the driver has no clock of its own.

        This method may be called from any thread.
        """
        return None

    async def clean_up(self) -> None:
        """
        Await a few times, as the cleanup of a cancelled coroutine may. Only drivers that run coroutines override this.
        """

    def make_wheel(self, **options: Any) -> TimerWheel:
        """
        Return a new wheel with the driver. The suite calls this method inside a scenario.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    def play(self, scenario: Coroutine[Any, Any, None]) -> None:
        """
        Run a scenario to its end.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    async def until(self, signal: threading.Event) -> None:
        """
        Let time pass until *signal* is set; fail after `PATIENCE_S`.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    def inside(self, wheel: TimerWheel, act: Callable[[], object]) -> None:
        """
        Call *act* inside a callback. The timers that *act* sets can fire only after *act* has returned.
        """
        wheel.call_later(0, act)

    async def settle(self, wheel: TimerWheel) -> None:
        """
        Wait until all timers that are due now have fired.
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
