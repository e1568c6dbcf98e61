"""
The timeout of a task, which `Timeouts` says is over.

`asyncio.timeout` does the same and sets timers of its own; a task that has none in it costs a tenth less.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["TaskTimeout"]


class TaskTimeout:
    """
    Cancels a task once; made in the task, whose coroutine calls `end` at its end.

    Attributes:
        is_over: Whether the task was cancelled for this.
    """

    __slots__ = ("_task", "is_over")

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task
        self.is_over = False

    def expire(self) -> None:
        """
        Cancel the task, unless it has come to its end; on its loop.
        """
        if self._task is not None and not self.is_over:
            self.is_over = True
            self._task.cancel()

    def end(self) -> bool:
        """
        Leave the task alone from now on; return whether it is cancelled for this and no other reason.
        """
        task, self._task = self._task, None
        return task is not None and self.is_over and task.uncancel() == 0
