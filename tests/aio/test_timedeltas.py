"""
Every duration in `aio` may be a timedelta.

For any other type, the error names the argument.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from tickwheel import aio

LOOPS = pytest.mark.parametrize("make", [asyncio.new_event_loop, aio.new_event_loop], ids=["asyncio", "ours"])
SHORT, LONG = timedelta(milliseconds=1), timedelta(hours=1)


def run(make, main):
    with asyncio.Runner(loop_factory=make) as runner:
        return runner.run(main)


@LOOPS
def test_timedeltas(make):
    async def main():
        loop = asyncio.get_running_loop()
        begin = loop.time()
        assert await aio.sleep(SHORT, 7) == 7
        assert loop.time() - begin >= 0.001
        assert await aio.wait_for(aio.sleep(0, 8), LONG) == 8
        with pytest.raises(TimeoutError):
            await aio.wait_for(asyncio.sleep(3_600), SHORT)
        with pytest.raises(TimeoutError):
            async with aio.timeout(SHORT):
                await asyncio.sleep(3_600)
        async with aio.timeout(LONG) as timeout:
            assert timeout.when() == pytest.approx(loop.time() + 3_600, abs=60)
            timeout.reschedule(timedelta(seconds=loop.time() + 7_200))
            assert timeout.when() == pytest.approx(loop.time() + 7_200, abs=60)
        async with aio.timeout_at(timedelta(seconds=loop.time() + 50)):
            await asyncio.sleep(0)

    run(make, main())


def test_timedeltas_of_the_loop():
    async def main():
        loop = asyncio.get_running_loop()
        fired = loop.create_future()
        loop.call_later(SHORT, fired.set_result, 1)
        assert await fired == 1
        fired = loop.create_future()
        loop.call_at(timedelta(seconds=loop.time()), fired.set_result, 2)
        assert await fired == 2

    aio.run(main())


@LOOPS
@pytest.mark.parametrize("bad", ["1", b"1", [1], datetime(2026, 1, 1)], ids=repr)  # noqa: DTZ001 - it is not a length
def test_values_that_are_not_durations(make, bad):
    """
    If a value that is not a duration is passed, the error names the argument, its value, and the remedy.
    """

    async def main():
        loop = asyncio.get_running_loop()
        for name, call in (
            ("delay", lambda: aio.timeout(bad)),
            ("when", lambda: aio.timeout_at(bad)),
            ("delay", lambda: aio.sleep(bad).send(None)),
            ("timeout", lambda: aio.wait_for(loop.create_future(), bad).send(None)),
        ):
            with pytest.raises(TypeError, match=rf"{name} is .*: pass seconds"):
                call()
        if isinstance(loop, aio.EventLoop):
            for name, verb in (("delay", loop.call_later), ("when", loop.call_at)):
                with pytest.raises(TypeError, match=rf"{name} is .*: pass seconds"):
                    verb(bad, print)

    run(make, main())
