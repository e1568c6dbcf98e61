"""
Replaces asyncio's timeouts by tickwheel's, in an interpreter that has this folder first on its path.
"""

from __future__ import annotations

import asyncio

from tickwheel import aio

for name in ("timeout", "timeout_at", "wait_for", "sleep"):
    setattr(asyncio, name, getattr(aio, name))
