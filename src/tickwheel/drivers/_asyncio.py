from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

from tickwheel.drivers._in_loop import DELAY_MAX_S, DriverInLoop
from tickwheel.drivers._loop_clock import LoopClock, is_system_time
from tickwheel.drivers._tasks import TaskSet, result_in_thread, running_loop
from tickwheel.drivers.contract import is_stepped
from tickwheel.loops import run_coroutine_threadsafe
from tickwheel.timers.contract import Engine

__all__ = ["AsyncioDriver"]

PAUSE_MIN_S: Final = 1e-6

_Watched: TypeAlias = Callable[[], asyncio.Handle | None]
"""Returns a handle until the loop drops it, then None."""


class AsyncioDriver(DriverInLoop):
    """
    Fires on an event loop: asyncio's, uvloop's, or any other with `call_later` and `call_soon_threadsafe`.

    Timers may be set from any thread. Callbacks run in the loop's thread, in a copy of the context in which they were
    set; callbacks of `call_later_many` run in the context in which the wheel was made. If a callback returns a
    coroutine, the coroutine becomes a task. Closing the wheel cancels that task. The end of an `async with` block, and
    `aclose`, also wait until the task has ended. If a loop overrides its `time` method, the driver uses that time. If a
    callback raises an `Exception`, the loop's exception handler receives it; any other exception ends the run of the
    loop. Loops may wake up to a millisecond early. Then no timer fires, and the driver waits for the rest of the time.

    Args:
        loop: The event loop; None for the running one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        loop = running_loop() if loop is None else loop
        if loop is None:
            message = "no event loop is running: make the wheel inside a coroutine, or pass loop="
            raise RuntimeError(message)
        super().__init__(None if is_system_time(loop) else LoopClock(loop.time))
        self._loop = loop
        self._tasks = TaskSet(loop)
        self._armed: _Watched | None = None
        self._is_looking = False
        self._look_watched: _Watched | None = None
        self._read_ns = -1
        self._pause_s = 0.0

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else "idle" if self._armed is None else "armed"
        return f"<AsyncioDriver {state} on {self._loop!r}>"

    def start(self, engine: Engine) -> None:
        super().start(engine)
        engine.on_error = self._report

    def stop(self) -> None:
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
        self._is_abandoned = True
        if self._armed is None and self._engine is not None and not is_stepped(self._engine.clock):
            self._soon(self._look)

    def stats(self) -> dict[str, Any]:
        return {"wakeups": self._wakeups, "tasks": len(self._tasks)}

    async def wait_closed(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - its end cancels nothing
        if self._loop.is_closed():
            return True
        if running_loop() is self._loop:
            return await self._tasks.wait(timeout, is_shielded=is_shielded)
        waiting = run_coroutine_threadsafe(self._tasks.wait(timeout, is_shielded=False), self._loop)
        return await result_in_thread(waiting.result)

    def _has_tasks(self) -> bool:
        return self._tasks.has_others()

    def _soon(self, step: Callable[..., object], *args: Any) -> bool:
        if self._loop.is_closed():  # not every kind of loop raises after its close
            return False
        call = self._loop.call_soon if running_loop() is self._loop else self._loop.call_soon_threadsafe
        try:
            handle = call(step, *args, context=self._context)
        except RuntimeError:
            if self._loop.is_closed():
                return False
            raise
        if step == self._look:
            self._look_watched = self._watch(handle)
        return True

    def _wake(self) -> None:
        assert self._engine is not None
        if self._is_looking and not self._loop.is_closed():
            self._engine.disarm()  # the pending `_look` will see the new timers
            return
        self._is_looking = True
        try:
            super()._wake()
        except BaseException:
            self._is_looking = False
            raise

    def _watch(self, handle: asyncio.Handle) -> _Watched:
        # use a weak reference, because most loops drop all handles when they close; other loops are checked at each
        # call
        try:
            return weakref.ref(handle, self._dropped)
        except TypeError:
            self._dropped(handle)
            return lambda: handle

    def _dropped(self, _: object) -> None:
        if self._engine is not None:
            self._engine.disarm()

    def _look(self) -> None:
        self._is_looking = False
        self._disarm()
        assert self._engine is not None
        deadline = None if self._is_stopped else self._engine.arm()
        if deadline is None:
            if self._is_abandoned:
                self._engine.drain()
            return
        now = self._engine.clock.monotonic_ns()
        delay = (deadline - now) / 1e9
        if self.clock is not None and delay > 0:
            delay = max(delay, self._pause(now))
        if delay <= 0:
            handle = self._loop.call_soon(self._turn, context=self._context)
        else:
            handle = self._loop.call_later(min(delay, DELAY_MAX_S), self._turn, context=self._context)
        self._armed = self._watch(handle)

    def _pause(self, now: int) -> float:
        """
        Return the minimum wait in seconds. It doubles at each call, as long as a coarse loop clock shows the same time.
        """
        self._pause_s = max(2 * self._pause_s, PAUSE_MIN_S) if now == self._read_ns else 0.0
        self._read_ns = now
        return self._pause_s

    def _disarm(self) -> None:
        armed, self._armed = self._armed, None
        handle = None if armed is None else armed()
        if handle is not None:
            handle.cancel()

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
