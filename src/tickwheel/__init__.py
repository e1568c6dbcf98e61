"""
tickwheel: timers by the million, and timers that survive a crash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later
from tickwheel.clock import BootClock, Clock, MonotonicClock
from tickwheel.drivers import (
    Driver,
    Executor,
    InlineExecutor,
    ManualDriver,
    PoolExecutor,
    ShardedWheel,
    ThreadDriver,
    TimerWheel,
    TrioDriver,
)
from tickwheel.errors import (
    ClosedError,
    ContextCancelledError,
    DeadlineExceededError,
    ExecutorFullError,
    InvalidDeadlineError,
    InvalidDelayError,
    InvalidValueError,
    MissingExtraError,
    RecurrenceError,
    ReentrantError,
    SpanExceededError,
    TickwheelError,
    TooManyTimersError,
)
from tickwheel.timers._contract import Pending, Timer
from tickwheel.timers._periodic import Periodic
from tickwheel.timers.contexts import (
    Context,
    background,
    with_cancel,
    with_deadline,
    with_timeout,
    with_value,
)

if TYPE_CHECKING:
    from tickwheel.aio import run
    from tickwheel.drivers import AsyncioDriver, TaskExecutor, ended, within

    __version__: str
else:  # asyncio and the package's metadata cost more to import than the rest together
    __getattr__ = later(
        __name__,
        {
            "AsyncioDriver": "tickwheel.drivers",
            "TaskExecutor": "tickwheel.drivers",
            "__version__": "tickwheel._version",
            "ended": "tickwheel.drivers",
            "run": "tickwheel.aio",
            "within": "tickwheel.drivers",
        },
    )

__all__ = [
    "AsyncioDriver",
    "BootClock",
    "Clock",
    "ClosedError",
    "Context",
    "ContextCancelledError",
    "DeadlineExceededError",
    "Driver",
    "Executor",
    "ExecutorFullError",
    "InlineExecutor",
    "InvalidDeadlineError",
    "InvalidDelayError",
    "InvalidValueError",
    "ManualDriver",
    "MissingExtraError",
    "MonotonicClock",
    "Pending",
    "Periodic",
    "PoolExecutor",
    "RecurrenceError",
    "ReentrantError",
    "ShardedWheel",
    "SpanExceededError",
    "TaskExecutor",
    "ThreadDriver",
    "TickwheelError",
    "Timer",
    "TimerWheel",
    "TooManyTimersError",
    "TrioDriver",
    "background",
    "ended",
    "run",
    "with_cancel",
    "with_deadline",
    "with_timeout",
    "with_value",
    "within",
]
