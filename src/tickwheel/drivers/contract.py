"""
The protocol of a driver, which waits and fires for one engine.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from tickwheel.clock import Clock
from tickwheel.timers.contract import Engine

__all__ = ["Driver", "SteppedClock", "is_stepped"]


@runtime_checkable
class SteppedClock(Clock, Protocol):
    """
    A clock that is moved manually and fires the attached engines as it moves; a thread cannot wait on it.
    """

    def attach(self, attached: Engine) -> None:
        """
        Fire *attached* whenever the time moves.
        """

    def detach(self, attached: Engine) -> None:
        """
        Stop firing *attached*.
        """


def is_stepped(clock: object) -> TypeGuard[SteppedClock]:
    """
    Return True if *clock* is a `SteppedClock`.

    `isinstance` would do, but from Python 3.12 on it imports `inspect`.
    """
    return hasattr(clock, "attach") and hasattr(clock, "detach")


class Driver(Protocol):
    """
    A driver calls an engine's `fire_due` when its clock says so.

    It is constructed, then started once with its engine. All methods may be called from any thread.
    """

    fires_itself: bool
    """True if timers fire without calls of `fire_due` by the user."""

    def start(self, engine: Engine) -> None:
        """
        Attach *engine*: set its `on_earlier`, and its `on_error` if the environment has a place for errors.

        Raises:
            RuntimeError: If this driver has an engine already, or its environment is missing.
            ValueError: If it cannot wait on the engine's clock.
        """

    def stop(self) -> None:
        """
        Fire no more timers; a running callback completes. May be called twice, and before `start`.
        """

    def abandon(self) -> None:
        """
        The wheel is unreferenced: fire pending timers, then release everything, including timers that never fire.
        """

    def join(self, timeout: float | None = None) -> bool:
        """
        Wait until the stopped driver runs no callback, at most *timeout* seconds.

        Returns:
            True if it runs none. From inside a callback of the driver: False, immediately.
        """

    def after_fork(self) -> None:
        """
        Start again in the child of a fork, with an empty engine.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return at least `wakeups`: the number of times this driver woke up to check its engine.
        """
