"""
Tickwheel's loop under nest_asyncio, which replaces the method that runs one turn of a loop.
"""

from __future__ import annotations

import subprocess
import sys

from libraries import needs_libraries

SCRIPT = """
import asyncio
import nest_asyncio
from tickwheel import TimerWheel, aio

loop = aio.new_event_loop()
asyncio.set_event_loop(loop)
nest_asyncio.apply(loop)
order = []

async def inner():
    cancelled = loop.call_later(0.001, order.append, "cancelled")
    cancelled.cancel()
    for delay in (0.004, 0.002, 0.003):
        loop.call_later(delay, order.append, delay)
    await asyncio.sleep(0.006)
    return "inner"

async def on_wheel():
    async with TimerWheel.asyncio() as wheel:
        return await wheel.sleep(0.002)

async def in_time():
    try:
        async with aio.timeout(0.002):
            await asyncio.sleep(50)
    except TimeoutError:
        return "timeout"

async def main():
    return [loop.run_until_complete(each()) for each in (inner, on_wheel, in_time)]

print(loop.run_until_complete(asyncio.wait_for(main(), 20)), order)
loop.close()
"""


@needs_libraries("nest_asyncio")
def test_nest_asyncio():
    """
    Under nest_asyncio, a coroutine can run the loop that already runs, and timers still fire in order.
    """
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("['inner', True, 'timeout'] [0.002, 0.003, 0.004]", "")
