"""
tickwheel: timers by the million, and timers that survive a crash.
"""

from __future__ import annotations

from tickwheel.clock import BootClock, Clock, MonotonicClock
from tickwheel.drivers import AsyncioDriver, Driver, ManualDriver, ThreadDriver, TimerWheel
from tickwheel.errors import (
    ClosedError,
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
    "Driver",
    "InvalidDeadlineError",
    "InvalidDelayError",
    "ManualDriver",
    "MissingExtraError",
    "MonotonicClock",
    "Pending",
    "ReentrantError",
    "SpanExceededError",
    "ThreadDriver",
    "TickwheelError",
    "Timer",
    "TimerWheel",
    "TooManyTimersError",
]
