"""
The protocol of a driver, which makes time pass for one engine.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, runtime_checkable

from tickwheel.clock import Clock
from tickwheel.timers.contract import Engine

__all__ = ["Driver", "SteppedClock", "is_stepped"]


@runtime_checkable
class SteppedClock(Clock, Protocol):
    """
    A clock that is moved by hand and fires what is attached to it as it moves; nobody can wait on it.
    """

    def attach(self, attached: Engine) -> None:
        """
        Fire *attached* from now on, as time moves.
        """

    def detach(self, attached: Engine) -> None:
        """
        Leave *attached* alone from now on.
        """


def is_stepped(clock: object) -> TypeGuard[SteppedClock]:
    """
    Return whether *clock* is moved by hand.

    `isinstance` would ask the same, but from Python 3.12 on it loads `inspect` for it.
    """
    return hasattr(clock, "attach") and hasattr(clock, "detach")


class Driver(Protocol):
    """
    A driver calls an engine's `fire_due` when its clock says so.

    Made, then started once with the engine that it is to drive. All methods may be called from any thread.
    """

    fires_itself: bool
    """Whether timers fire without anybody calling `fire_due`."""

    def start(self, engine: Engine) -> None:
        """
        Take *engine* over: see to its `on_earlier`, and to `on_error` where the surroundings have a place for errors.

        Raises:
            RuntimeError: If this driver has an engine already, or its surroundings are missing.
            ValueError: If it cannot wait on the engine's clock.
        """

    def stop(self) -> None:
        """
        Fire nothing more, for good; a callback that is running runs on. Twice is allowed, and so is before `start`.
        """

    def abandon(self) -> None:
        """
        Nobody holds the wheel any more: fire what is pending, then give everything back, what never fires included.
        """

    def join(self, timeout: float | None = None) -> bool:
        """
        Wait until the stopped driver calls nothing any more, at most *timeout* seconds.

        Returns:
            Whether that is so. From inside a callback of the driver: False, at once.
        """

    def after_fork(self) -> None:
        """
        Begin again in the child of a fork, with the engine empty.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return at least `wakeups`: how often this driver woke up to look at its engine.
        """
