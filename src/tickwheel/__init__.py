"""
tickwheel: timers by the million, and timers that survive a crash.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tickwheel.clock import BootClock, Clock, MonotonicClock
from tickwheel.drivers import (
    AsyncioDriver,
    Driver,
    Executor,
    InlineExecutor,
    ManualDriver,
    PoolExecutor,
    ShardedWheel,
    TaskExecutor,
    ThreadDriver,
    TimerWheel,
    TrioDriver,
    ended,
    within,
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

__version__: str

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
    "ManualDriver",
    "MissingExtraError",
    "MonotonicClock",
    "Pending",
    "Periodic",
    "PoolExecutor",
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


def __getattr__(name: str) -> object:
    """
    Import the loop when `tickwheel.run` is first asked for, and look up the version when that is.
    """
    if name == "run":
        return import_module("tickwheel.aio").run
    if name == "__version__":
        return import_module("importlib.metadata").version("tickwheel")
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
