"""
The tasks that were made of coroutines which callbacks returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tickwheel.timers.contract import Engine

__all__ = ["TaskSet", "running_loop"]


class TaskSet:
    """
    Tasks of one loop, held until they are done, because the loop itself holds them weakly. Used in the loop's thread.

    Args:
        loop: Which loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, engine: Engine, coroutine: Coroutine[Any, Any, Any], timer: object) -> None:
        """
        Make a task of *coroutine*, and give what it raises, unless it is cancelled, to the `on_error` of *engine*.
        """
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None and engine.on_error is not None:
                engine.on_error(error, timer)

        task.add_done_callback(done)

    def cancel(self) -> None:
        """
        Cancel all of them but the one that asks for it.
        """
        current = asyncio.current_task() if running_loop() is self._loop else None
        for task in list(self._tasks):
            if task is not current:
                task.cancel()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """
    Return the loop that runs in this thread, or None.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
