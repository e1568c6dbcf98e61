"""
Callbacks as asyncio tasks.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tickwheel.drivers._measured import MeasuredExecutor, SlowHandler
from tickwheel.timers._contract import DueTimer, Engine
from tickwheel.typing import Seconds

__all__ = ["TaskExecutor"]


class TaskExecutor(MeasuredExecutor):
    """
    Calls on an event loop, and makes a task of each coroutine that a callback returns.

        wheel = TimerWheel.asyncio(executor=TaskExecutor())
        wheel.call_later(5, fetch, url)    # an async function

    An error of a task goes where its wheel's errors go; a cancelled one is no error.
    With a driver on another thread callbacks are handed to the loop.

    Args:
        loop: Which loop; None for the one that is running.
        slow_s: Callbacks that hold the loop longer in one call are reported; None for no report.
        on_slow: Who gets the report; None for a warning in the logger `tickwheel`.

    Raises:
        RuntimeError: If no loop is given and none is running.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        slow_s: Seconds | None = None,
        on_slow: SlowHandler | None = None,
    ) -> None:
        super().__init__(slow_s, on_slow)
        self._loop = asyncio.get_running_loop() if loop is None else loop
        self._tasks: set[asyncio.Task[Any]] = set()

    def serve(self, engine: Engine) -> None:
        """
        Take every due timer of *engine*, and tell its `on_error` what tasks raise.
        """

        def submit(timer: DueTimer) -> None:
            if _is_running(self._loop):
                self._start(engine, timer)
            else:
                self._loop.call_soon_threadsafe(self._start, engine, timer)

        engine.runner = submit

    def stats(self) -> dict[str, Any]:
        """
        Return how many callbacks have run, how many were slow, and how many tasks are under way.
        """
        return {**super().stats(), "executor_tasks": len(self._tasks)}

    def _start(self, engine: Engine, timer: DueTimer) -> None:
        result = self.run(timer)
        if not asyncio.iscoroutine(result):
            return
        task = self._loop.create_task(result)
        self._tasks.add(task)  # the loop itself holds its tasks weakly

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and engine.on_error is not None:
                engine.on_error(error, timer)

        task.add_done_callback(done)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
