"""
Replaces asyncio's timeouts with tickwheel's timeouts in an interpreter.

The interpreter must have this folder first on its path.
"""

from __future__ import annotations

import asyncio

from tickwheel import aio

for name in ("timeout", "timeout_at", "wait_for", "sleep"):
    setattr(asyncio, name, getattr(aio, name))
