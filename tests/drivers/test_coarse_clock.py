"""
Drivers on a clock that moves only every 15.6 ms, like the clock of Windows under Python 3.11 and 3.12.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time

import pytest

from tickwheel import MonotonicClock, TimerWheel
from tickwheel.wheels import HeapWheel

GRAIN_NS = 15_625_000
TIMERS = 40


class CoarseClock(MonotonicClock):
    def monotonic_ns(self) -> int:
        return time.monotonic_ns() // GRAIN_NS * GRAIN_NS


def set_many(wheel: TimerWheel, clock: CoarseClock, done: threading.Event | asyncio.Event) -> list[float]:
    """
    Set timers that are due between two ticks of the clock. Return a list that gets their lateness.
    """
    chance = random.Random(15_625)
    lateness: list[float] = []

    def note(deadline: float) -> None:
        lateness.append(clock.monotonic_ns() / 1e9 - deadline)
        if len(lateness) == TIMERS:
            done.set()

    now = clock.monotonic_ns() / 1e9
    for _ in range(TIMERS):
        when = now + chance.uniform(0, 0.1)
        wheel.call_at(when, note, when)
    return lateness


@pytest.mark.realtime
@pytest.mark.parametrize("design", [None, HeapWheel], ids=["native", "heap"])
def test_a_thread_is_never_early(design):
    """
    On a thread, no timer fires before the coarse clock has reached its deadline, and there are only a few wake-ups.
    """
    clock, done = CoarseClock(), threading.Event()
    wheel = TimerWheel(clock=clock, wheel=None if design is None else design())
    lateness = set_many(wheel, clock, done)
    assert done.wait(60)
    assert min(lateness) >= 0
    assert wheel.stats()["wakeups"] <= 3 * TIMERS, "it waits for the next tick and does not ask again and again"
    wheel.close()


@pytest.mark.realtime
def test_a_loop_is_never_early():
    """
    On an event loop, no timer fires before the coarse clock has reached its deadline.
    """

    async def main() -> list[float]:
        clock, done = CoarseClock(), asyncio.Event()
        async with TimerWheel.asyncio(clock=clock) as wheel:
            lateness = set_many(wheel, clock, done)
            async with asyncio.timeout(60):
                await done.wait()
        return lateness

    assert min(asyncio.run(main())) >= 0
