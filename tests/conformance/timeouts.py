"""
CPython's tests of timeouts and wait_for, run against ours: `python tests/conformance/timeouts.py`.
"""

from __future__ import annotations

import asyncio
import sys
import unittest

from tickwheel import aio

for name in ("timeout", "timeout_at", "wait_for", "sleep"):
    setattr(asyncio, name, getattr(aio, name))

if __name__ == "__main__":
    names = [f"test.test_asyncio.{name}" for name in ("test_timeouts", "test_waitfor")]
    outcome = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromNames(names))
    sys.exit(not outcome.wasSuccessful())
