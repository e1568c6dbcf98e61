"""
Try each part of an installed tickwheel that needs no extras: timers, a loop, a cache, and jobs on disk.

    python -P scripts/smoke.py
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from pathlib import Path

import tickwheel
from tickwheel import aio
from tickwheel.cache import TTLCache
from tickwheel.scheduler import Outcome, Scheduler


def timers() -> None:
    """
    Fire one timer on a thread, and cancel another one.
    """
    fired = threading.Event()
    wheel = tickwheel.TimerWheel()
    assert wheel.call_later(3600, fired.set).cancel()
    wheel.call_later(0.001, fired.set)
    assert fired.wait(60)
    wheel.close()


async def loop() -> bool:
    """
    Return True if a timeout on tickwheel's loop ends a wait.
    """
    try:
        async with aio.timeout(0.001):
            await asyncio.Event().wait()
    except TimeoutError:
        return True
    return False


def jobs() -> None:
    """
    Set jobs in a file, run one of them and cancel another.
    """
    ran = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(f"sqlite:///{Path(folder).as_posix()}/jobs.db")
        scheduler.handler("note")(lambda _: ran.set())
        with scheduler:
            scheduler.set("soon", delay=0.01, handler="note", payload=1)
            scheduler.set("later", delay=3600, handler="note", payload=2)
            assert scheduler.cancel("later").outcome is Outcome.CANCELLED
            assert ran.wait(60)


if __name__ == "__main__":
    timers()
    assert tickwheel.run(loop())
    cache: TTLCache[str, int] = TTLCache(maxsize=10, ttl=60)
    cache["one"] = 1
    assert cache["one"] == 1
    jobs()
    print("smoke:", tickwheel.__version__, Path(tickwheel.__file__).parent)
