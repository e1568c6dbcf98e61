"""
Awaitable timers.
"""

from __future__ import annotations

import asyncio
import gc

import pytest
import trio

from tickwheel import PoolExecutor, TimerWheel
from tickwheel.testing import ManualClock

RUNS = pytest.mark.parametrize("run", [asyncio.run, lambda main: trio.run(lambda: main)], ids=["asyncio", "trio"])
MAKES = pytest.mark.parametrize("make", [TimerWheel, TimerWheel.anyio], ids=["thread", "loop"])


@RUNS
@MAKES
def test_sleep(run, make):
    """
    Each await of a timer returns True if the timer fired, and False if it was cancelled.
    """

    async def main():
        wheel = make()
        sleep = wheel.sleep(0.001)
        assert await sleep
        assert await sleep
        assert wheel.time() >= sleep.when()
        assert (sleep.pending(), sleep.cancelled(), sleep.restart(1), sleep.cancel()) == (False, False, False, False)
        far = wheel.sleep(3_600)
        wheel.call_later(0.001, far.cancel)
        assert not await far
        assert far.cancelled()
        moved = wheel.sleep(3_600)
        assert moved.restart(0.001)
        assert await moved
        last = wheel.sleep(3_600)
        assert [each.timer for each in wheel.pending()] == [last]
        wheel.call_later(0.001, wheel.drain)
        assert not await last
        await wheel.aclose()

    run(main())


@RUNS
@MAKES
def test_every(run, make):
    """
    The ticks of `every` are in phase and never early. If the wheel is closed, the loop over `every` ends.
    """

    async def main():
        wheel = make()
        ticks = []
        begin = wheel.time()
        async for tick in wheel.every(0.001, times=3, missed="burst"):
            assert tick <= wheel.time()
            ticks.append(tick - begin)
        assert len(ticks) == 3
        assert ticks[0] >= 0.001
        assert ticks[2] - ticks[0] == pytest.approx(0.002)
        async for _ in wheel.every(3_600, first=0):
            assert len(wheel) == 0, "nothing is pending between two ticks"
            break
        wheel.call_later(0.001, wheel.close)
        assert [tick async for tick in wheel.every(3_600)] == []
        assert [tick async for tick in wheel.every(3_600)] == []

    run(main())


def test_every_skips_missed_ticks():
    """
    If the body of an `every` loop is slow, ticks are skipped and counted.
    """

    async def main():
        clock = ManualClock(1_000 * 10**9)
        wheel = TimerWheel(clock=clock)
        ticks = wheel.every(1, until=1_006)
        got = []

        async def consume():
            async for tick in ticks:
                got.append(tick)
                if tick == 1_002:
                    clock.advance(2.5)

        task = asyncio.create_task(consume())
        while not task.done():
            await asyncio.sleep(0)
            clock.advance(0.5)
        await task
        assert got == [1_001, 1_002, 1_005, 1_006]
        assert ticks.missed == 2

    asyncio.run(main())


def test_a_sleep_under_a_full_pool():
    """
    A sleep ends even if the pool is full, because it needs no worker.
    """

    async def main():
        pool = PoolExecutor(1)
        wheel = TimerWheel(executor=pool)
        pool.close()
        async with asyncio.timeout(20):
            assert await wheel.sleep(0.001)
        wheel.close()

    asyncio.run(main())


def test_invalid_intervals():
    """
    The call of `every` checks its arguments at once, and not only at the first tick.
    """
    wheel = TimerWheel(clock=ManualClock())
    for bad in (
        {"interval": 0},
        {"interval": 1, "times": 0},
        {"interval": 1, "until": -1},
        {"interval": 1, "missed": "x"},
    ):
        with pytest.raises(ValueError, match=next(name for name in reversed(bad))):
            wheel.every(**bad)
    with pytest.raises(ValueError, match="delay"):
        wheel.sleep(float("nan"))
    gc.collect()
    assert len(wheel) == 0
