"""
asyncio on the wheel.
"""

from __future__ import annotations

from tickwheel.aio._loop import EventLoop, new_event_loop, run

__all__ = ["EventLoop", "new_event_loop", "run"]
