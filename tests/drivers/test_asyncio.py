"""
The asyncio driver on asyncio's loop and on uvloop: the contract suite, and further tests.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import importlib.util
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tickwheel import AsyncioDriver, ClosedError, TimerWheel, background, with_timeout
from tickwheel.testing import ManualClock
from tickwheel.testing.driver_suite import PATIENCE_S, DriverSuite
from tickwheel.wheels.heap import HeapWheel

HAS_UVLOOP = importlib.util.find_spec("uvloop") is not None


def run_on_uvloop(scenario: Coroutine[Any, Any, None]) -> None:
    import uvloop  # noqa: PLC0415 - where it is installed

    uvloop.run(scenario)


LOOPS = [
    pytest.param(asyncio.run, id="asyncio"),
    pytest.param(
        run_on_uvloop, id="uvloop", marks=pytest.mark.skipif(not HAS_UVLOOP, reason="uvloop is not installed")
    ),
]


class TestAsyncio(DriverSuite):
    pytestmark = pytest.mark.realtime

    runs_here = True

    async def clean_up(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.asyncio(**options)

    def play(self, scenario: Any) -> None:
        """
        Run a scenario on a new loop in debug mode.

        Debug mode detects calls from a wrong thread.
        """
        asyncio.run(scenario, debug=True)

    async def until(self, signal: threading.Event) -> None:
        assert await asyncio.to_thread(signal.wait, PATIENCE_S)


class TestAsyncioOverHeap(TestAsyncio):
    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel.asyncio(wheel=HeapWheel(), **options)


@pytest.mark.skipif(not HAS_UVLOOP, reason="uvloop is not installed")
class TestUvloop(TestAsyncio):
    def play(self, scenario: Any) -> None:
        run_on_uvloop(scenario)


async def fired(wheel: TimerWheel, delay: float = 0.0) -> None:
    future = asyncio.get_running_loop().create_future()
    wheel.call_later(delay, future.set_result, None)
    await asyncio.wait_for(future, PATIENCE_S)


@pytest.mark.parametrize("run", LOOPS)
def test_fires_in_the_loops_thread(run):
    """
    Callbacks run in the thread of the loop, even if another thread set them.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio()
        seen: list[threading.Thread] = []
        await asyncio.to_thread(wheel.call_later, 0, lambda: seen.append(threading.current_thread()))
        await fired(wheel, 0.001)
        assert seen == [threading.current_thread()]

    run(scenario())


def test_no_loop():
    """
    If no loop is running, `TimerWheel.asyncio` raises an error that names the remedy.
    """
    with pytest.raises(RuntimeError, match="inside a coroutine"):
        TimerWheel.asyncio()


@pytest.mark.parametrize("run", LOOPS)
def test_one_handle_for_many_timers(run):
    """
    Ten thousand timers that are set in one turn of the loop cost one wake-up. An idle wheel costs none.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio()
        for number in range(10_000):
            wheel.call_later(3_600 - number / 10, print)
        await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert wheel.stats()["wakeups"] == 0
        wheel.close()

    run(scenario())


def test_one_handle_in_the_loop():
    """
    However often the earliest deadline changes, a wheel has one active handle in the loop. A closed wheel has none.
    """

    async def scenario() -> None:
        loop: Any = asyncio.get_running_loop()
        wheel = TimerWheel.asyncio()
        for number in range(50):
            wheel.call_later(1_000 - number, print)
            await asyncio.sleep(0)
        assert len([handle for handle in loop._scheduled if not handle.cancelled()]) == 1
        wheel.close()
        await asyncio.sleep(0)
        assert [handle for handle in loop._scheduled if not handle.cancelled()] == []

    asyncio.run(scenario())


@pytest.mark.parametrize("run", LOOPS)
def test_errors_go_to_the_loop(run):
    """
    Without `on_error`, an error goes to the loop's exception handler, with the timer.
    """

    async def scenario() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        wheel = TimerWheel.asyncio()
        timer = wheel.call_later(0, lambda: 1 // 0)
        await fired(wheel)
        (context,) = told
        assert type(context["exception"]) is ZeroDivisionError
        assert context["timer"] is timer
        own: list[BaseException] = []
        wheel = TimerWheel.asyncio(on_error=lambda error, _: own.append(error))
        wheel.call_later(0, lambda: 1 // 0)
        await fired(wheel)
        assert (len(told), len(own)) == (1, 1)

    run(scenario())


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_an_exit_leaves_the_loop(kind):
    """
    If a callback raises SystemExit or KeyboardInterrupt, `run_forever` raises it. The other timers still fire later.
    """
    loop = asyncio.new_event_loop()
    count: list[int] = []
    wheel = TimerWheel.asyncio(loop=loop)

    def leave() -> None:
        raise kind

    wheel.call_later(0, leave)
    wheel.call_later(0, count.append, 1)
    wheel.call_later(0, loop.stop)
    with pytest.raises(kind):
        loop.run_forever()
    assert count == []
    loop.run_forever()
    assert count == [1]
    wheel.close()
    loop.close()


def test_on_a_loop_that_is_not_running():
    """
    A wheel that is made for a given loop accepts timers before the loop runs.
    """
    loop = asyncio.new_event_loop()
    wheel = TimerWheel.asyncio(loop=loop)
    wheel.call_later(0.001, loop.stop)
    loop.run_forever()
    assert len(wheel) == 0
    loop.close()


def test_a_closed_loop():
    """
    If the loop is closed, setting a timer is refused and closes the wheel.
    """
    loop = asyncio.new_event_loop()
    wheel = TimerWheel.asyncio(loop=loop)
    series, context = wheel.call_every(10, print), with_timeout(background(wheel), 5)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    with pytest.raises(ClosedError, match="event loop"):
        wheel.call_later(1, print)
    assert wheel.closed()
    assert len(wheel) == 0
    assert (series.pending(), series.cancelled(), context.done()) == (False, True, True)
    with pytest.raises(ClosedError):
        wheel.call_later(1, print)


def test_closed_after_its_loop():
    async def scenario() -> TimerWheel:
        wheel = TimerWheel.asyncio()
        wheel.call_later(3_600, print)
        await asyncio.sleep(0)
        return wheel

    wheel = asyncio.run(scenario())
    assert [each.callback for each in wheel.close()] == [print]


def test_closed_from_another_thread():
    """
    A wheel that is closed in another thread leaves no active handle in its loop.
    """

    async def scenario() -> None:
        loop: Any = asyncio.get_running_loop()
        wheel = TimerWheel.asyncio()
        wheel.call_later(3_600, print)
        await asyncio.sleep(0)
        await asyncio.to_thread(wheel.close)
        await asyncio.sleep(0)
        assert [handle for handle in loop._scheduled if not handle.cancelled()] == []

    asyncio.run(scenario(), debug=True)


@pytest.mark.parametrize("run", LOOPS)
def test_the_context_of_a_callback(run):
    """
    A callback runs in the context in which its timer was set, or in the context that was passed.
    """
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")

    async def scenario() -> None:
        variable.set("of the wheel")
        wheel = TimerWheel.asyncio()
        seen: list[str] = []
        variable.set("of a third")
        third = contextvars.copy_context()
        variable.set("of the caller")
        wheel.call_later(0, lambda: seen.append(variable.get()))
        wheel.call_later(0, lambda: seen.append(variable.get()), context=third)
        wheel.call_later_many([0], lambda _: seen.append(variable.get()))
        variable.set("of nobody")
        await fired(wheel)
        assert seen == ["of the caller", "of a third", "of the wheel"]

    run(scenario())


@pytest.mark.parametrize("run", LOOPS)
def test_many_due_timers_let_other_callbacks_run(run):
    """
    Many due timers fire in order in several turns of the loop, and other callbacks run between these turns.
    """

    async def scenario() -> None:
        wheel = TimerWheel.asyncio()
        order: list[int] = []
        between: list[int] = []

        def look() -> None:
            between.append(len(order))
            if len(order) < 5_000:
                asyncio.get_running_loop().call_soon(look)

        for number in range(5_000):
            wheel.call_later(0, order.append, number)
        look()
        await fired(wheel)
        assert order == list(range(5_000))
        assert len({count for count in between if 0 < count < 5_000}) >= 3

    run(scenario())


def test_with_a_manual_clock():
    """
    With a manual clock, timers fire in the call that moves the clock.
    """

    async def scenario() -> None:
        clock = ManualClock()
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        wheel = TimerWheel.asyncio(clock=clock)
        count: list[int] = []
        wheel.call_later(3_600, count.append, 1)
        wheel.call_later(3_600, lambda: 1 // 0)
        clock.advance(3_599)
        assert count == []
        clock.advance(1)
        assert (count, len(told)) == ([1], 1)
        wheel.close()
        clock.advance(1)

    asyncio.run(scenario())


def test_one_driver_one_wheel():
    async def scenario() -> None:
        driver = AsyncioDriver()
        TimerWheel(driver=driver)
        with pytest.raises(RuntimeError, match="new driver"):
            TimerWheel(driver=driver)

    asyncio.run(scenario())


def test_collected_with_its_loop():
    """
    Once a loop was collected, its wheel can be collected with the objects of its timers.
    """

    class Thing:
        def __call__(self) -> None: ...

    def count() -> int:
        gc.collect()
        return sum(type(each) is Thing for each in gc.get_objects())

    async def scenario(hold: Callable[[TimerWheel], None]) -> None:
        wheel = TimerWheel.asyncio()
        wheel.call_later(3_600, Thing())
        await asyncio.sleep(0)
        hold(wheel)
        assert count() == 1

    with pytest.warns(ResourceWarning, match="unclosed"):
        asyncio.run(scenario(lambda _: None))
    assert count() == 0
