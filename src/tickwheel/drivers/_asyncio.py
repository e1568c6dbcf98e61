"""
The asyncio driver: one armed handle on a running loop, however many timers there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tickwheel.drivers._in_loop import DELAY_MAX_S, DriverInLoop
from tickwheel.drivers._tasks import TaskSet, running_loop
from tickwheel.drivers.contract import is_stepped
from tickwheel.timers.contract import Engine

__all__ = ["AsyncioDriver"]


class AsyncioDriver(DriverInLoop):
    """
    Fires on an event loop: asyncio's, uvloop's, any that has `call_later` and `call_soon_threadsafe`.

    Timers may be set from any thread; callbacks run in the loop's, in a copy of the context that they were set in, or,
    set by `call_later_many`, in that of the wheel.
    A coroutine that one returns becomes a task, which is cancelled if the wheel is closed meanwhile.
    An `Exception` of theirs goes to the loop's exception handler; anything else leaves the loop's run, as with its own
    timers.
    Loops may wake up early, by up to a millisecond; then nothing fires, and the rest of the time is waited for.

    Args:
        loop: Which loop; None for the one that is running.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        loop = running_loop() if loop is None else loop
        if loop is None:
            message = "no event loop is running: make the wheel inside a coroutine, or pass loop="
            raise RuntimeError(message)
        super().__init__()
        self._loop = loop
        self._tasks = TaskSet(loop)
        self._armed: asyncio.Handle | None = None

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else "idle" if self._armed is None else "armed"
        return f"<AsyncioDriver {state} on {self._loop!r}>"

    def start(self, engine: Engine) -> None:
        """
        Take *engine* over; what a callback raises goes to the loop.
        """
        super().start(engine)
        engine.on_error = self._report

    def stop(self) -> None:
        """
        Fire nothing more; take the handle from the loop, and cancel the tasks.
        """
        self._is_stopped = True
        if running_loop() is self._loop:
            self._tasks.cancel()
        elif self._tasks:
            self._soon(self._tasks.cancel)
        if self._engine is not None and is_stepped(self._engine.clock):
            self._engine.clock.detach(self._engine)
        elif self._armed is not None:
            self._soon(self._disarm)

    def abandon(self) -> None:
        """
        Let go of what never fires, now or when the rest has fired; the loop holds what does.
        """
        self._is_abandoned = True
        if self._armed is None and self._engine is not None and not is_stepped(self._engine.clock):
            self._soon(self._look)

    def stats(self) -> dict[str, Any]:
        """
        Return how many turns of the loop looked at the engine: `wakeups`; and how many tasks are under way.
        """
        return {"wakeups": self._wakeups, "tasks": len(self._tasks)}

    def _soon(self, step: Callable[..., object], *args: Any) -> bool:
        call = self._loop.call_soon if running_loop() is self._loop else self._loop.call_soon_threadsafe
        try:
            call(step, *args, context=self._context)
        except RuntimeError:
            if self._loop.is_closed():
                return False
            raise
        return True

    def _look(self) -> None:
        self._disarm()
        assert self._engine is not None
        deadline = None if self._is_stopped else self._engine.arm()
        if deadline is None:
            if self._is_abandoned:
                self._engine.drain()
            return
        delay = (deadline - self._engine.clock.monotonic_ns()) / 1e9
        if delay <= 0:
            self._armed = self._loop.call_soon(self._turn, context=self._context)
        else:
            self._armed = self._loop.call_later(min(delay, DELAY_MAX_S), self._turn, context=self._context)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _turn(self) -> None:
        self._armed = None
        self._wakeups += 1
        assert self._engine is not None
        try:
            self._fire(self._engine)
        finally:
            self._look()

    def _await(self, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        if running_loop() is self._loop:
            self._start_task(coroutine, timer)
            return
        try:
            self._loop.call_soon_threadsafe(self._start_task, coroutine, timer)
        except RuntimeError:
            coroutine.close()
            raise

    def _start_task(self, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        assert self._engine is not None
        if self._is_stopped:
            coroutine.close()
        else:
            self._tasks.start(self._engine, coroutine, timer)

    def _report(self, error: BaseException, timer: object) -> None:
        self._loop.call_exception_handler({"message": "a timer's callback raised", "exception": error, "timer": timer})
