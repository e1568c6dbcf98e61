"""
The base of the drivers that fire inside an event loop, which somebody else runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final

from tickwheel.clock import Clock
from tickwheel.drivers.contract import is_stepped
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Engine
from tickwheel.timers.standin import end_all
from tickwheel.typing import Unique

__all__ = ["DELAY_MAX_S", "DriverInLoop"]

_TURN_MAX: Final = 1024
"""So many callbacks in one turn of the loop at most; then its other work gets its turn."""

DELAY_MAX_S: Final = 86_400.0 * 365
"""Longer waits are taken in parts: a loop that counts milliseconds in 32 bits has no trouble with a year."""


class DriverInLoop(Unique, ABC):
    """
    Fires in the thread of one event loop; timers may be set from any.
    """

    fires_itself = True

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock
        """The loop's clock, which a wheel gets that was given none; None where that is the system's."""
        self._engine: Engine | None = None
        self._context = copy_context()
        self._is_stopped = False
        self._is_abandoned = False
        self._is_firing = False
        self._wakeups = 0

    def start(self, engine: Engine) -> None:
        """
        Take *engine* over; with a clock that is moved by hand it fires where that is moved.
        """
        if self._engine is not None:
            message = "this driver has an engine already: make a new driver for each wheel"
            raise RuntimeError(message)
        self._engine = engine
        engine.on_coroutine = self._await
        engine.captures_context = True
        if is_stepped(engine.clock):
            engine.clock.attach(engine)
        else:
            engine.on_earlier = self._wake
            engine.arm()
        call_after_fork(self)

    def join(self, timeout: float | None = None) -> bool:
        """
        Return at once whether no callback and no coroutine is running: to wait would be to hold the loop.
        """
        return not (self._is_firing or self._has_tasks())

    @abstractmethod
    async def wait_closed(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - it is not a cancellation
        """
        Wait until the coroutines of the stopped driver have ended, at most *timeout* seconds; return whether they have.

        A coroutine of the driver may ask: neither it is waited for, nor another one that asks.

        Args:
            timeout: How many seconds; None for as long as it takes.
            is_shielded: Whether a cancellation of the caller comes through only once they have ended.
        """

    @abstractmethod
    def _has_tasks(self) -> bool:
        """
        Return whether a coroutine is running, that of the caller apart.
        """

    def after_fork(self) -> None:
        if self._engine is not None:
            self._engine.after_fork()

    def _fire(self, engine: Engine) -> None:
        self._is_firing = True
        try:
            engine.fire_due(_TURN_MAX)
        finally:
            self._is_firing = False

    def _wake(self) -> None:
        """
        Look again in the loop's next turn: the engine's `on_earlier`.
        """
        if not self._soon(self._look):
            assert self._engine is not None
            end_all(self._engine.close())
            raise ClosedError("event loop")

    @abstractmethod
    def _soon(self, step: Callable[..., object], *args: Any) -> bool:
        """
        Run *step* in the loop's thread; return False if the loop is over.
        """

    @abstractmethod
    def _look(self) -> None:
        """
        See when the engine has to fire next; called in the loop's thread.
        """

    @abstractmethod
    def _await(self, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        """
        Run what a callback returned: the engine's `on_coroutine`.
        """
