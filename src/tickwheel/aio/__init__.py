"""
asyncio with its timers in the wheel.
"""

from __future__ import annotations

from tickwheel._core import Timeout, timeout, timeout_at
from tickwheel.aio._loop import EventLoop, new_event_loop, run
from tickwheel.aio._waiting import sleep, wait_for

__all__ = ["EventLoop", "Timeout", "new_event_loop", "run", "sleep", "timeout", "timeout_at", "wait_for"]
