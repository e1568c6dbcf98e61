"""
Makes tickwheel's event loop the default loop of an interpreter.

The interpreter must have this folder first on its path.
"""

from __future__ import annotations

import asyncio
import asyncio.unix_events

import tickwheel
from tickwheel.aio import EventLoop

asyncio.unix_events._UnixDefaultEventLoopPolicy._loop_factory = EventLoop
asyncio.unix_events.SelectorEventLoop = asyncio.SelectorEventLoop = EventLoop
if hasattr(asyncio, "EventLoop"):
    asyncio.unix_events.EventLoop = asyncio.EventLoop = EventLoop
# pytest would warn that tickwheel, which has a pytest plugin, was imported too early.
tickwheel.__doc__ = f"{tickwheel.__doc__}\nPYTEST_DONT_REWRITE"
