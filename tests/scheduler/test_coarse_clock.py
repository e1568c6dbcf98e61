"""
The engine on a clock that moves only every 15.6 ms, like the clock of Windows under Python 3.11 and 3.12.
"""

from __future__ import annotations

import random
import time

import pytest

from tickwheel import MonotonicClock

GRAIN_NS = 15_625_000
JOBS = 40


class CoarseClock(MonotonicClock):
    """
    The system's clocks in coarse steps.
    """

    def monotonic_ns(self) -> int:
        """
        Return the monotonic time, rounded down to a whole tick.
        """
        return time.monotonic_ns() // GRAIN_NS * GRAIN_NS

    def wall_ns(self) -> int:
        """
        Return the time of day, rounded down to a whole tick.
        """
        return time.time_ns() // GRAIN_NS * GRAIN_NS


@pytest.mark.realtime
def test_never_early(url, make, record):
    """
    No job fires before the coarse clock has reached the job's due time.
    """
    clock, chance = CoarseClock(), random.Random(15_625)
    scheduler = make(url, clock=clock)

    @scheduler.handler("h")
    def handler(_payload, firing):
        record((clock.wall_ns() // 10**6, firing.job.due_at, firing.fired_at))  # in integers, as a float would round

    scheduler.start()
    for number in range(JOBS):
        scheduler.set(f"job {number}", delay=chance.uniform(0, 0.2), handler="h")
    for read_at, due_at, fired_at in record.wait(JOBS):
        assert min(read_at, fired_at) >= due_at
