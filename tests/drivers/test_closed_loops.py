"""
A wheel on a closed loop accepts no timers.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

from tickwheel import ClosedError, TimerWheel, aio

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # rloop leaves sockets open

LOOPS = {"asyncio": asyncio.new_event_loop, "tickwheel": aio.new_event_loop}
for module in ("uvloop", "rloop"):
    if importlib.util.find_spec(module):
        LOOPS[module] = importlib.import_module(module).new_event_loop


@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("armed", ["not yet", "soon", "later", "overdue"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_closed_loop_accepts_nothing(name, armed, other):
    """
    On a closed loop a timer is refused in every thread, whatever its deadline.
    """
    loop = LOOPS[name]()

    async def scenario():
        wheel = TimerWheel.asyncio()
        wheel.call_later({"overdue": 0, "soon": 0.05}.get(armed, 100), print)
        if armed != "not yet":
            await asyncio.sleep(0)
        return wheel

    wheel = loop.run_until_complete(scenario())
    loop.close()

    def accepted():
        with pytest.raises(ClosedError, match="event loop"):
            wheel.call_later(1_000, print)
        return len(wheel)

    with ThreadPoolExecutor(1) as pool:
        assert (pool.submit(accepted).result() if other else accepted()) == 0
    assert wheel.closed()


@pytest.mark.parametrize("name", LOOPS)
def test_wake_ups_of_a_loop_that_is_checked(name):
    """
    A thousand timers that are set in one turn of the loop cost only a few wake-ups.
    """

    async def scenario():
        with TimerWheel.asyncio() as wheel:
            wheel.call_later(50, print)
            await asyncio.sleep(0)
            looks, look = [], wheel._driver._look
            wheel._driver._look = lambda: looks.append(look())
            for number in range(1_000):
                wheel.call_later(100 + number, print)
            fired = asyncio.Event()
            wheel.call_later(0, fired.set)
            await fired.wait()
            return len(looks)

    loop = LOOPS[name]()
    assert loop.run_until_complete(scenario()) <= 4
    loop.close()


@pytest.mark.parametrize("armed", [0.05, 100])
def test_a_run_of_trio_that_is_over(armed):
    """
    After the end of trio's run, a timer is refused, whatever its deadline.
    """

    async def scenario():
        wheel = TimerWheel.trio()
        wheel.call_later(armed, print)
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        return wheel

    wheel = trio.run(scenario)
    with pytest.raises(ClosedError, match="event loop"):
        wheel.call_later(1_000, print)
    assert wheel.closed()
