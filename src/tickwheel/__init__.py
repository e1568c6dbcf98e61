"""
tickwheel: timers by the million, and timers that survive a crash.
"""

from __future__ import annotations

from tickwheel._later import later

TYPE_CHECKING = bool()  # noqa: UP018 - checkers take it for true, jedi for either; `typing` would double the cost of the import
if TYPE_CHECKING:
    from tickwheel.aio import run
    from tickwheel.cache import TTLCache
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
        InvalidValueError,
        LoadTimeoutError,
        MissingExtraError,
        RecurrenceError,
        ReentrantError,
        SpanExceededError,
        TickwheelError,
        TooManyTimersError,
    )
    from tickwheel.scheduler import AsyncScheduler, Scheduler, task
    from tickwheel.timers.contexts import Context, background, with_cancel, with_deadline, with_timeout, with_value
    from tickwheel.timers.contract import Pending, Timer
    from tickwheel.timers.periodic import Periodic

    __version__: str
else:  # each package is imported on first use
    __getattr__, __dir__ = later(
        __name__,
        {
            "tickwheel": ["clock", "drivers", "errors", "timers", "typing", "wheels"],
            "tickwheel._version": ["__version__"],
            "tickwheel.aio": ["run"],
            "tickwheel.cache": ["TTLCache"],
            "tickwheel.clock": ["BootClock", "Clock", "MonotonicClock"],
            "tickwheel.drivers": [
                "AsyncioDriver",
                "Driver",
                "Executor",
                "InlineExecutor",
                "ManualDriver",
                "PoolExecutor",
                "ShardedWheel",
                "TaskExecutor",
                "ThreadDriver",
                "TimerWheel",
                "TrioDriver",
                "ended",
                "within",
            ],
            "tickwheel.errors": [
                "ClosedError",
                "ContextCancelledError",
                "DeadlineExceededError",
                "ExecutorFullError",
                "InvalidDeadlineError",
                "InvalidDelayError",
                "InvalidValueError",
                "LoadTimeoutError",
                "MissingExtraError",
                "RecurrenceError",
                "ReentrantError",
                "SpanExceededError",
                "TickwheelError",
                "TooManyTimersError",
            ],
            "tickwheel.scheduler": ["AsyncScheduler", "Scheduler", "task"],
            "tickwheel.timers.contract": ["Pending", "Timer"],
            "tickwheel.timers.periodic": ["Periodic"],
            "tickwheel.timers.contexts": [
                "Context",
                "background",
                "with_cancel",
                "with_deadline",
                "with_timeout",
                "with_value",
            ],
        },
    )

__all__ = [
    "AsyncScheduler",
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
    "LoadTimeoutError",
    "ManualDriver",
    "MissingExtraError",
    "MonotonicClock",
    "Pending",
    "Periodic",
    "PoolExecutor",
    "RecurrenceError",
    "ReentrantError",
    "Scheduler",
    "ShardedWheel",
    "SpanExceededError",
    "TTLCache",
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
    "task",
    "with_cancel",
    "with_deadline",
    "with_timeout",
    "with_value",
    "within",
]
