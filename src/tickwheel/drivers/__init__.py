"""
TimerWheel, the drivers that advance its time, and executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.drivers._manual import ManualDriver
from tickwheel.drivers._thread import ThreadDriver
from tickwheel.drivers._timer_wheel import TimerWheel
from tickwheel.drivers.contract import Driver, SteppedClock
from tickwheel.drivers.executors import Executor, InlineExecutor, PoolExecutor

if TYPE_CHECKING:
    from tickwheel.drivers._asyncio import AsyncioDriver
    from tickwheel.drivers._context_waits import ended, within
    from tickwheel.drivers._shards import ShardedWheel
    from tickwheel.drivers._trio import TrioDriver
    from tickwheel.drivers.executors import TaskExecutor
else:  # imported on demand, because these import asyncio or serve few programs
    __getattr__, __dir__ = later(
        __name__,
        {
            "tickwheel.drivers._asyncio": ["AsyncioDriver"],
            "tickwheel.drivers._context_waits": ["ended", "within"],
            "tickwheel.drivers._shards": ["ShardedWheel"],
            "tickwheel.drivers._trio": ["TrioDriver"],
            "tickwheel.drivers._tasks": ["TaskExecutor"],
        },
    )

__all__ = [
    "AsyncioDriver",
    "Driver",
    "Executor",
    "InlineExecutor",
    "ManualDriver",
    "PoolExecutor",
    "ShardedWheel",
    "SteppedClock",
    "TaskExecutor",
    "ThreadDriver",
    "TimerWheel",
    "TrioDriver",
    "ended",
    "within",
]
