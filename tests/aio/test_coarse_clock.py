"""
A loop whose clock moves only every 15.6 ms, like the clock of Windows under Python 3.11 and 3.12.
"""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from tickwheel import aio

GRAIN_NS = 15_625_000
WAITS = 200


class CoarseLoop(aio.EventLoop):
    """
    A loop that reads the monotonic clock in coarse steps, and counts its turns.
    """

    turns = 0

    def time(self) -> float:
        return time.monotonic_ns() // GRAIN_NS * GRAIN_NS / 1e9

    def _run_once(self) -> None:
        self.turns += 1
        super()._run_once()


async def slept(when: float, loop: CoarseLoop) -> None:
    await aio.sleep(when - loop.time())


async def called(when: float, loop: CoarseLoop) -> None:
    done = asyncio.Event()
    loop.call_at(when, done.set)
    await done.wait()


async def timed_out(when: float, _loop: CoarseLoop) -> None:
    with pytest.raises(TimeoutError):
        async with aio.timeout_at(when):
            await asyncio.Event().wait()


@pytest.mark.realtime
@pytest.mark.parametrize("wait", [slept, called, timed_out])
def test_never_early(wait):
    """
    No wait is over before the loop's own clock has reached its deadline.

    The loop sleeps until the next tick instead of spinning.
    """
    chance = random.Random(15_625)

    async def main() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CoarseLoop)

        async def lateness(when: float) -> float:
            await wait(when, loop)
            return loop.time() - when

        now = loop.time()
        late = await asyncio.gather(*(lateness(now + chance.uniform(0, 0.1)) for _ in range(WAITS)))
        return min(late), loop.turns

    with asyncio.Runner(loop_factory=CoarseLoop) as runner:
        earliest, turns = runner.run(main())
    assert earliest >= 0
    assert turns <= 5 * WAITS
