"""
The protocol of a driver. A driver waits for the next deadline of one engine and fires its timers.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from tickwheel.clock import Clock
from tickwheel.timers.contract import Engine

__all__ = ["Driver", "SteppedClock", "is_stepped"]


@runtime_checkable
class SteppedClock(Clock, Protocol):
    """
    A clock that advances only by calls, and then fires the due timers of attached engines. No thread can wait on it.
    """

    def attach(self, attached: Engine) -> None:
        """
        Fire the due timers of *attached* whenever this clock is advanced.
        """

    def detach(self, attached: Engine) -> None:
        """
        Undo `attach`: this clock no longer fires the timers of *attached*.
        """


def is_stepped(clock: object) -> TypeGuard[SteppedClock]:
    """
    Return True if *clock* is a `SteppedClock`.

    `isinstance` is not used, because from Python 3.12 on it imports `inspect`.
    """
    return hasattr(clock, "attach") and hasattr(clock, "detach")


class Driver(Protocol):
    """
    A driver calls an engine's `fire_due` at the times that the engine's `arm` returns.

    A driver is constructed, then started once with its engine. All methods may be called from any thread.
    """

    fires_itself: bool
    """True if timers fire without calls of `fire_due` by the user."""

    def start(self, engine: Engine) -> None:
        """
        Attach *engine*: set its `on_earlier`, and also its `on_error` if the environment has an error handler.

        Raises:
            RuntimeError: If this driver already has an engine, or the environment (such as a running loop) is missing.
            ValueError: If the driver cannot wait on the engine's clock.
        """

    def stop(self) -> None:
        """
        Fire no more timers. A running callback completes. This method may be called twice, and before `start`.
        """

    def abandon(self) -> None:
        """
        Called when the wheel is no longer referenced. Timers that are never due may be released; all others still fire.
        """

    def join(self, timeout: float | None = None) -> bool:
        """
        Wait until the stopped driver runs no callback, at most *timeout* seconds.

        Returns:
            True if no callback is running. Inside a callback of the driver, the result is False immediately.
        """

    def after_fork(self) -> None:
        """
        Start again in the child of a fork, with an empty engine.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return at least `wakeups`, the number of times this driver woke up to check its engine.
        """
