"""
The base of the drivers that fire inside the user's event loop.
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
from tickwheel.timers.proxy import end_all
from tickwheel.typing import NonCopyable

__all__ = ["DELAY_MAX_S", "DriverInLoop"]

_TURN_MAX: Final = 1024
"""Maximum number of callbacks in one turn of the loop, so that they do not delay the loop's other work."""

DELAY_MAX_S: Final = 86_400.0 * 365
"""Maximum wait in seconds. Longer waits are split, because some loops count milliseconds in 32 bits."""


class DriverInLoop(NonCopyable, ABC):
    fires_itself = True

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock
        """Default clock of a wheel on this loop; None if the loop uses the system's clock."""
        self._engine: Engine | None = None
        self._context = copy_context()
        self._is_stopped = False
        self._is_abandoned = False
        self._is_firing = False
        self._wakeups = 0

    def start(self, engine: Engine) -> None:
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
        Return True if no callback and no coroutine is running. Never waits, because that would block the loop.
        """
        return not (self._is_firing or self._has_tasks())

    @abstractmethod
    async def wait_closed(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - its end cancels nothing
        """
        Wait at most *timeout* seconds until the coroutines of the stopped driver have ended. Return True if they have.

        A coroutine of the driver that calls this method is not waited for. If *is_shielded* is True, a cancellation of
        the caller takes effect after the coroutines have ended.
        """

    @abstractmethod
    def _has_tasks(self) -> bool: ...

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
        Check the engine in the loop's next turn. The engine calls this method as `on_earlier`.
        """
        if not self._soon(self._look):
            assert self._engine is not None
            end_all(self._engine.close())
            raise ClosedError("event loop")

    @abstractmethod
    def _soon(self, step: Callable[..., object], *args: Any) -> bool:
        """
        Run *step* in the loop's thread. Return False if the loop is closed.
        """

    @abstractmethod
    def _look(self) -> None: ...

    @abstractmethod
    def _await(self, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        """
        Run a coroutine that a callback returned. The engine calls this method as `on_coroutine`.
        """
