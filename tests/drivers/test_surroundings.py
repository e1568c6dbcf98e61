"""
The contract suite of drivers, run on loops and clocks of other libraries.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from libraries import needs_libraries

from tickwheel import TimerWheel, aio
from tickwheel.clock import MonotonicClock
from tickwheel.testing.driver_suite import PATIENCE_S, DriverSuite

LONG_S = 7_200.0
"""A time in seconds that is much longer than any test."""


class OwnTime(asyncio.SelectorEventLoop):
    """
    A loop with simulated time. When the loop is idle, its time jumps to the next timer.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0
        super().__init__()
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            events = select(0 if timeout else timeout)
            if not events and timeout:
                self.now_s += timeout
            return events

        self._selector.select = jump

    def time(self) -> float:
        return self.now_s


class OnLoop(DriverSuite):
    runs_here = True

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.asyncio(**options)

    async def clean_up(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


class TestOwnTime(OnLoop):
    def play(self, scenario: Any) -> None:
        with asyncio.Runner(loop_factory=OwnTime) as runner:
            self.loop = runner.get_loop()
            runner.run(scenario)

    def now(self) -> float:
        return self.loop.time()

    async def until(self, signal: threading.Event) -> None:
        end = self.now() + PATIENCE_S
        while not signal.is_set():
            assert self.now() < end
            await asyncio.sleep(0.0005)


class TestTaskGroup(OnLoop):
    """
    The contract suite in a child task of a TaskGroup, on the loop of the tests.
    """

    pytestmark = pytest.mark.realtime

    async def until(self, signal: threading.Event) -> None:
        assert await asyncio.to_thread(signal.wait, PATIENCE_S)

    def play(self, scenario: Any) -> None:
        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                other = group.create_task(asyncio.sleep(3_600))
                await group.create_task(scenario)
                other.cancel()

        aio.run(main())

    def now(self) -> float:
        return MonotonicClock().monotonic_ns() / 1e9


class TestMockClock(DriverSuite):
    runs_here = True

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.trio(**options)

    async def clean_up(self) -> None:
        with trio.CancelScope(shield=True):
            for _ in range(10):
                await trio.lowlevel.checkpoint()

    def play(self, scenario: Any) -> None:
        async def main() -> None:
            await scenario

        self.clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(main, clock=self.clock)

    def now(self) -> float:
        return self.clock.current_time()

    async def until(self, signal: threading.Event) -> None:
        with trio.fail_after(PATIENCE_S):
            while not signal.is_set():  # noqa: ASYNC110 - it is time that has to pass
                await trio.sleep(0.0005)


def test_a_timer_precedes_a_later_timeout_of_its_loop():
    """
    On a loop with its own time, a timer fires before a later timeout of the loop, with few wake-ups.
    """

    async def main() -> None:
        loop, fired = asyncio.get_running_loop(), []
        async with TimerWheel.asyncio() as wheel:
            begin = loop.time()
            wheel.call_later(LONG_S / 2, lambda: fired.append(loop.time() - begin))
            wheel.call_every(LONG_S / 8, fired.append, None, times=2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.sleep(2 * LONG_S), LONG_S)
            assert fired[:2] == [None, None]
            assert LONG_S / 2 <= fired[2] < LONG_S / 2 + 0.001
            assert wheel.stats()["wakeups"] < 10

    with asyncio.Runner(loop_factory=OwnTime) as runner:
        runner.run(main())


@pytest.mark.parametrize("make", [asyncio.new_event_loop, aio.new_event_loop], ids=["asyncio", "ours"])
@pytest.mark.parametrize("where", ["object", "class"])
def test_a_patched_time_is_followed(make, where, monkeypatch):
    """
    If a test has replaced the method `time` of a loop or of its class, a wheel on that loop uses the replacement.
    """
    now = [50.0]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        if where == "object":
            loop.time = lambda: now[0]
        else:
            monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda _: now[0])
        async with TimerWheel.asyncio() as wheel:
            fired = asyncio.Event()
            wheel.call_later(60, fired.set)
            assert wheel.time() == 50.0
            await asyncio.sleep(0)
            now[0] += 61.0
            await fired.wait()

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # rloop leaves sockets open
def test_a_loop_on_the_systems_clock():
    """
    If a loop uses the system's clock, the wheel reads this clock without calling Python.
    """

    async def main() -> None:
        async with TimerWheel.asyncio() as wheel:
            assert type(wheel.clock) is MonotonicClock

    makes = [asyncio.new_event_loop, aio.new_event_loop]
    for name in ("uvloop", "rloop"):
        try:
            makes.append(__import__(name).new_event_loop)
        except ImportError:
            continue
    for make in makes:
        with asyncio.Runner(loop_factory=make) as runner:
            runner.run(main())

    async def in_trio() -> None:
        async with TimerWheel.trio() as wheel:
            assert type(wheel.clock) is MonotonicClock

    trio.run(in_trio)


def test_a_cancelled_block_ends_with_its_coroutines():
    """
    If a task is cancelled while its `async with` block waits for coroutines, the task ends after the coroutines.
    """

    async def main() -> None:
        log: list[str] = []
        has_begun, may_end = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            try:
                has_begun.set()
                await asyncio.sleep(3_600)
            finally:
                await may_end.wait()
                log.append("has cleaned up")

        async def block() -> None:
            async with TimerWheel.asyncio() as wheel:
                wheel.call_later(0, work)
                await has_begun.wait()

        task = asyncio.create_task(block())
        await has_begun.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert log == []
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log == ["has cleaned up"]

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # rloop leaves sockets open
def test_a_closed_loop_takes_no_timers():
    """
    A closed loop refuses the next timer, even if the loop's class does not report that the loop is closed.
    """

    async def make() -> TimerWheel:
        return TimerWheel.asyncio()

    for name in ("asyncio", "uvloop", "rloop"):
        try:
            loop = __import__(name).new_event_loop()
        except ImportError:
            continue
        wheel = loop.run_until_complete(make())
        loop.close()
        with pytest.raises(RuntimeError, match="event loop is closed"):
            wheel.call_later(1, print)


@pytest.mark.slow
@pytest.mark.skipif("TICKWHEEL_AS" in os.environ, reason="gevent's patches come before another system can be shown")
@needs_libraries("gevent")
def test_the_suite_of_the_thread_under_gevent():
    """
    If gevent has patched the process, the contract suite of the thread driver passes.
    """
    script = (
        "from gevent import monkey; monkey.patch_all(); import pytest, sys; "
        "words = '-q -x -p no:cacheprovider tests/drivers/test_thread.py -k TestThread'; "
        "sys.exit(pytest.main(words.split()))"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3_000:]
