"""
Where callbacks run: in the driver's thread, in a pool of workers, or as asyncio tasks.

    pool = PoolExecutor(workers=8, queue_max=10_000, when_full="run")
    wheel = TimerWheel(executor=pool)

A wheel without an executor calls in its driver's thread: cheapest, and in order, but a slow callback holds up the next.
An executor may serve several wheels. It belongs to whoever made it: closing a wheel does not close it.
Every executor measures, and reports callbacks that take longer than its `slow_s`.
"""

from __future__ import annotations

from tickwheel.drivers._measured import Executor, InlineExecutor, SlowHandler
from tickwheel.drivers._pool import PoolExecutor, WhenFull
from tickwheel.drivers._tasks import TaskExecutor

__all__ = ["Executor", "InlineExecutor", "PoolExecutor", "SlowHandler", "TaskExecutor", "WhenFull"]
