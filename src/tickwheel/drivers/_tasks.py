from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from tickwheel.drivers._measured import MeasuredExecutor, SlowHandler
from tickwheel.timers.contract import DueTimer, Engine
from tickwheel.typing import Seconds

__all__ = ["TaskExecutor", "TaskSet", "result_in_thread", "running_loop"]


T = TypeVar("T")


class TaskExecutor(MeasuredExecutor):
    """
    Runs callbacks on an event loop, and makes a task of each coroutine that a callback returns.

        wheel = TimerWheel(executor=TaskExecutor())
        wheel.call_later(5, fetch, url)    # an async function

    Use it for a wheel that fires in another thread, or to get reports of slow callbacks; `TimerWheel.asyncio()` needs
    no executor to make tasks. Callbacks and coroutines run in a copy of the context in which they were set.

    An error of a task is reported like an error of a callback; a cancelled task is not an error. The tasks belong to
    the executor, so closing a wheel does not cancel them.

    Args:
        loop: The event loop; None for the running one.
        slow_s: Seconds. A callback that blocks the loop for longer is reported; None for no report.
        on_slow: Called with each report; None for a warning in the logger `tickwheel`.

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
        self._tasks = TaskSet(self._loop)

    def serve(self, engine: Engine) -> None:
        def submit(timer: DueTimer) -> None:
            if running_loop() is self._loop:
                self.run(timer)
            else:
                self._loop.call_soon_threadsafe(self.run, timer)

        engine.captures_context = True
        engine.runner = submit
        engine.on_coroutine = partial(self._tasks.start, engine)

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), "executor_tasks": len(self._tasks)}


class TaskSet:
    """
    Strong references to running tasks, because the loop has only weak ones. Used only in the loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._waiting: set[asyncio.Task[Any] | None] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, engine: Engine, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            self._cancelled.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and engine.on_error is not None:
                engine.on_error(error, timer)

        task.add_done_callback(done)

    def cancel(self) -> None:
        current = self._current()
        for task in self._tasks - self._cancelled - {current}:
            self._cancelled.add(task)
            task.cancel()

    def has_others(self) -> bool:
        return bool(self._tasks - {self._current()})

    async def wait(self, timeout: float | None, *, is_shielded: bool) -> bool:  # noqa: ASYNC109 - its end cancels nothing
        """
        Wait at most *timeout* seconds until all tasks except callers of this method end. Return True if they ended.

        If *is_shielded* is True, a cancellation of the caller is raised after the tasks have ended; otherwise, at once.
        """
        current, cancellation = self._current(), None
        until = None if timeout is None else self._loop.time() + timeout
        self._waiting.add(current)
        try:
            while others := self._tasks - self._waiting:
                left = None if until is None else max(until - self._loop.time(), 0.0)
                try:
                    ended, _ = await asyncio.wait(others, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError as error:
                    if not is_shielded:
                        raise
                    cancellation = error
                    continue
                if not ended:
                    return False
                await asyncio.sleep(0)  # lets the done callbacks run
        finally:
            self._waiting.discard(current)
        if cancellation is not None:
            raise cancellation
        return True

    def _current(self) -> asyncio.Task[Any] | None:
        return asyncio.current_task() if running_loop() is self._loop else None


async def result_in_thread(wait: Callable[[], T]) -> T:
    if running_loop() is not None:
        return await asyncio.to_thread(wait)
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_task():
        result: T = await trio.to_thread.run_sync(wait, abandon_on_cancel=True)
        return result
    return wait()  # a coroutine that runs without a loop, stepped manually


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
