"""
Executors run callbacks in the driver's thread, in a pool of workers, or as asyncio tasks.

    pool = PoolExecutor(workers=8, queue_max=10_000, when_full="run")
    wheel = TimerWheel(executor=pool)

A wheel without an executor runs callbacks in its driver's thread. That costs least and keeps callbacks in order, but a
slow callback delays the next one. An executor may serve several wheels. Closing a wheel does not close its executor.
Every executor measures callbacks, and reports those that take longer than its `slow_s`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.drivers._measured import Executor, InlineExecutor, SlowHandler
from tickwheel.drivers._pool import PoolExecutor, WhenFull

if TYPE_CHECKING:
    from tickwheel.drivers._tasks import TaskExecutor
else:  # imported on demand, because it imports asyncio
    __getattr__, __dir__ = later(__name__, {"tickwheel.drivers._tasks": ["TaskExecutor"]})

__all__ = ["Executor", "InlineExecutor", "PoolExecutor", "SlowHandler", "TaskExecutor", "WhenFull"]
