"""
By the clock that the caller reads, no sleep or timeout ends early, even if the loop's own clock differs.
"""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from tickwheel import aio

ROUNDS, CROWD = 8, 1_000


async def slept(delay):
    await aio.sleep(delay)


async def timed_out(delay):
    try:
        async with aio.timeout(delay):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        pass


@pytest.fixture(params=["tickwheel", "asyncio", "uvloop", "rloop"])
def factory(request):
    own = {"tickwheel": aio.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
    return own.get(request.param) or pytest.importorskip(request.param).new_event_loop


@pytest.mark.realtime
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # rloop's sockets
@pytest.mark.parametrize("wait", [slept, timed_out])
def test_never_early(factory, wait):
    """
    Thousands of waits begin while the loop is busy, and none of them ends early by `time.monotonic()`.
    """
    draw = random.Random(13)
    early = []

    async def watched(delay):
        begin = time.monotonic()
        await wait(delay)
        lasted = time.monotonic() - begin
        if lasted < delay:
            early.append((delay, delay - lasted))

    async def main():
        for _ in range(ROUNDS):
            await asyncio.gather(*(watched(draw.uniform(0.0, 0.02)) for _ in range(CROWD)))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
    assert not early, f"{len(early)} of {ROUNDS * CROWD} were early, by up to {max(by for _, by in early):.6f} s"
