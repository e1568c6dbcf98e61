"""
tickwheel: timers by the million, and timers that survive a crash.
"""

from __future__ import annotations

from tickwheel.clock import BootClock, Clock, MonotonicClock
from tickwheel.drivers import (
    AsyncioDriver,
    Driver,
    Executor,
    InlineExecutor,
    ManualDriver,
    PoolExecutor,
    TaskExecutor,
    ThreadDriver,
    TimerWheel,
)
from tickwheel.errors import (
    ClosedError,
    ContextCancelledError,
    DeadlineExceededError,
    ExecutorFullError,
    InvalidDeadlineError,
    InvalidDelayError,
    MissingExtraError,
    ReentrantError,
    SpanExceededError,
    TickwheelError,
    TooManyTimersError,
)
from tickwheel.timers._contract import Pending, Timer

__all__ = [
    "AsyncioDriver",
    "BootClock",
    "Clock",
    "ClosedError",
    "ContextCancelledError",
    "DeadlineExceededError",
    "Driver",
    "Executor",
    "ExecutorFullError",
    "InlineExecutor",
    "InvalidDeadlineError",
    "InvalidDelayError",
    "ManualDriver",
    "MissingExtraError",
    "MonotonicClock",
    "Pending",
    "PoolExecutor",
    "ReentrantError",
    "SpanExceededError",
    "TaskExecutor",
    "ThreadDriver",
    "TickwheelError",
    "Timer",
    "TimerWheel",
    "TooManyTimersError",
]
