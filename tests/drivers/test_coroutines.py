"""
Coroutine functions as callbacks. An event loop awaits them. Without an event loop they are refused at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from array import array
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tickwheel import (
    AsyncioDriver,
    InlineExecutor,
    PoolExecutor,
    ShardedWheel,
    TaskExecutor,
    TimerWheel,
    background,
    with_cancel,
)
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 20.0
DESIGNS: dict[str, Callable[[], Any]] = {"native": lambda: None, "heap": HeapWheel}

# The ways in which a callback can be given, each with an argument for it.
WAYS: dict[str, Callable[[TimerWheel, Callable[..., object]], object]] = {
    "call_later": lambda wheel, call: wheel.call_later(0, call, "x"),
    "call_at": lambda wheel, call: wheel.call_at(wheel.time(), call, "x"),
    "partial": lambda wheel, call: wheel.call_later(0, partial(call, "x")),
    "context=": lambda wheel, call: wheel.call_later(0, call, "x", context=contextvars.copy_context()),
    "call_every": lambda wheel, call: wheel.call_every(1, call, "x", first=0, times=1),
    "call_at_wall": lambda wheel, call: wheel.call_at_wall(0, call, "x"),
    "call_later_many": lambda wheel, call: wheel.call_later_many([0], call),
    "a context's call_later": lambda wheel, call: with_cancel(background(wheel)).call_later(0, call, "x"),
    "a context's call_at": lambda wheel, call: background(wheel).call_at(0, call, "x"),
}

# Wheels with a loop that awaits coroutines; the wheel's loop also awaits those that a pool makes.
AWAITING: dict[str, Callable[..., Any]] = {
    "asyncio": TimerWheel.asyncio,
    "asyncio, inline": lambda **options: TimerWheel.asyncio(executor=InlineExecutor(60), **options),
    "asyncio, tasks": lambda **options: TimerWheel.asyncio(executor=TaskExecutor(), **options),
    "asyncio, pool": lambda **options: TimerWheel.asyncio(executor=PoolExecutor(1), **options),
    "thread, tasks": lambda **options: TimerWheel(executor=TaskExecutor(), **options),
}
THREADED: dict[str, Callable[..., Any]] = {
    "thread": TimerWheel,
    "inline": lambda **options: TimerWheel(executor=InlineExecutor(60), **options),
    "pool": lambda **options: TimerWheel(executor=PoolExecutor(1), **options),
    "by hand": lambda **options: TimerWheel(clock=ManualClock(), **options),
}


@pytest.fixture(params=DESIGNS)
def design(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return DESIGNS[request.param]


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    """
    Run a scenario on a new loop, with a timeout.
    """

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario()

    asyncio.run(main())


class Heard:
    """
    Plain and async callbacks that record their arguments.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.got: asyncio.Queue[object] = asyncio.Queue()

    def plain(self, *args: object) -> None:
        self.loop.call_soon_threadsafe(self.got.put_nowait, args)

    async def awaited(self, *args: object) -> None:
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is self.loop
        self.got.put_nowait(args)


@pytest.mark.parametrize("kind", ["plain", "awaited"])
@pytest.mark.parametrize("maker", AWAITING)
def test_every_way_to_give_a_callback(maker, kind, design):
    """
    However a callback is passed to a wheel, it gets its arguments, and a coroutine is awaited.
    """

    async def scenario() -> None:
        heard = Heard()
        for way, give in WAYS.items():
            wheel = AWAITING[maker](wheel=design())
            assert wheel.awaits_coroutines
            give(wheel, getattr(heard, kind))
            got = await heard.got.get()
            if way == "call_later_many":
                assert isinstance(got, tuple), way
                assert isinstance(got[0], array), way
            else:
                assert got == ("x",), way
            wheel.close()
        wheel = AWAITING[maker](wheel=design(), on_expire=getattr(heard, kind))
        wheel.set("key", "value", 0)
        assert await heard.got.get() == ("key", "value")
        wheel.close()

    run(scenario)


@pytest.mark.parametrize("kind", ["plain", "awaited"])
def test_shards(kind, design):
    """
    A sharded wheel refuses coroutine functions for expired keys, unless it has a TaskExecutor.
    """

    async def scenario() -> None:
        heard = Heard()
        options = {"make_wheel": design, "on_expire": getattr(heard, kind)}
        shards = ShardedWheel(2, executor=TaskExecutor(), **options)
        shards.set("key", "value", 0)
        assert await heard.got.get() == ("key", "value")
        shards.close()
        if kind == "awaited":
            with pytest.raises(TypeError, match=r"on_expire is .*TaskExecutor"):
                ShardedWheel(2, **options)

    run(scenario)


@pytest.mark.parametrize("maker", THREADED)
def test_threads_refuse_coroutine_functions(maker, design):
    """
    Without an event loop, a coroutine function is refused when it is passed, and the error names the remedy.
    """

    class Fetcher:
        async def fetch(self, *_args: object) -> None: ...

    async def fetch(*_args: object) -> None: ...

    wheel = THREADED[maker](wheel=design())
    assert not wheel.awaits_coroutines
    for callback in (fetch, Fetcher().fetch, partial(fetch, 1), partial(partial(Fetcher().fetch, 1), 2)):
        for way, give in WAYS.items():
            with pytest.raises(TypeError, match=r"callback is .*pass executor=TaskExecutor\(\)"):
                give(wheel, callback)
            assert len(wheel) == 0, way
        with pytest.raises(TypeError, match=r"on_expire is .*TimerWheel.asyncio\(\)"):
            THREADED[maker](wheel=design(), on_expire=callback)
    wheel.close()


def test_a_hidden_coroutine_is_reported(design):
    """
    If a plain function returns a coroutine that no event loop can run, an error is reported.
    """
    ended: list[str] = []

    async def fetch(*_args: object) -> None:
        ended.append("ran")

    errors: list[tuple[BaseException, object]] = []
    clock = ManualClock()
    wheel = TimerWheel(wheel=design(), clock=clock, on_error=lambda error, timer: errors.append((error, timer)))

    def hidden(*args: object) -> object:
        return fetch(*args)

    timer = wheel.call_later(0, hidden)
    series = wheel.call_every(1, hidden, first=0, times=2)
    wheel.call_later_many([0], hidden)
    clock.advance(2)
    assert [type(error) for error, _ in errors] == [TypeError] * 4
    assert str(errors[0][0]).startswith(f"callback is {hidden!r}, which makes a coroutine")
    assert errors[0][1] is timer
    assert (series.fired, series.pending(), ended) == (2, False, [])


def test_on_the_loop_of_the_caller(design):
    """
    The task of a coroutine runs in a copy of the context in which the timer was set.
    """
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

    async def scenario() -> None:
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def look() -> None:
            seen.put_nowait(name.get())

        wheel = TimerWheel.asyncio(wheel=design())
        name.set("ada")
        wheel.call_later(0, look)
        name.set("bob")
        assert await seen.get() == "ada"
        wheel.close()

    run(scenario)


@pytest.mark.parametrize("where", ["on the loop", "in a thread"])
def test_tasks_end_with_the_wheel(where, design):
    """
    If a wheel on an event loop is closed in any thread, the tasks of its callbacks are cancelled.
    """

    async def scenario() -> None:
        begun, ended = asyncio.Event(), asyncio.Queue[str]()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                ended.put_nowait("cancelled")
                raise

        async def close() -> None:
            wheel.close()
            await asyncio.sleep(0)
            ended.put_nowait("closed")

        wheel = TimerWheel.asyncio(wheel=design())
        wheel.call_later(0, work)
        await begun.wait()
        assert wheel.stats()["tasks"] == 1
        if where == "on the loop":
            wheel.call_later(0, close)
            assert {await ended.get(), await ended.get()} == {"cancelled", "closed"}
        else:
            await asyncio.to_thread(wheel.close)
            assert await ended.get() == "cancelled"
        await asyncio.sleep(0)
        assert wheel.stats()["tasks"] == 0

    run(scenario)


def test_errors_of_tasks_are_reported(design):
    """
    If a task raises, `on_error` or the loop's exception handler gets the error with the timer.

    A cancelled task is not reported.
    """

    async def scenario() -> None:
        told: asyncio.Queue[tuple[object, object]] = asyncio.Queue()

        async def fail() -> None:
            raise LookupError

        async def give_up() -> None:
            raise asyncio.CancelledError

        wheel = TimerWheel.asyncio(wheel=design(), on_error=lambda *failure: told.put_nowait(failure))
        wheel.call_later(0, give_up)
        timer = wheel.call_later(0, fail)
        error, source = await told.get()
        assert (type(error), source) == (LookupError, timer)
        wheel.close()
        asyncio.get_running_loop().set_exception_handler(
            lambda _, found: told.put_nowait((found["exception"], found["timer"]))
        )
        wheel = TimerWheel.asyncio(wheel=design())
        timer = wheel.call_later(0, fail)
        error, source = await told.get()
        assert (type(error), source) == (LookupError, timer)
        wheel.close()

    run(scenario)


def test_a_series_waits_for_its_coroutine(design):
    """
    A series of coroutines never runs twice at once. If a coroutine raises or is cancelled, the series continues.
    """

    async def scenario() -> None:
        clock = ManualClock()
        errors: list[str] = []
        wheel = TimerWheel.asyncio(
            wheel=design(), clock=clock, on_error=lambda error, _: errors.append(type(error).__name__)
        )
        gate, fired = asyncio.Event(), []

        async def work() -> None:
            fired.append(clock.monotonic())
            await gate.wait()
            if len(fired) == 2:
                raise LookupError

        async def settle() -> None:
            for _ in range(5):
                await asyncio.sleep(0)

        series = wheel.call_every(1, work)
        clock.advance(1)
        await settle()
        clock.advance(3.5)
        await settle()
        assert (len(fired), series.fired) == (1, 1)
        gate.set()
        await settle()
        assert series.missed == 3
        clock.advance(1)
        await settle()
        assert (len(fired), errors) == (2, ["LookupError"])
        clock.advance(1)
        (task,) = wheel._driver._tasks._tasks
        task.cancel()
        await settle()
        assert (len(fired), series.fired, series.pending()) == (2, 3, True)
        clock.advance(1)
        await settle()
        assert (len(fired), series.fired) == (3, 4)
        wheel.close()

    run(scenario)


def test_a_closed_loop_drops_no_coroutine(design):
    """
    If a callback in a pool returns a coroutine after its loop was closed, the coroutine is closed and reported.
    """
    told: list[str] = []
    at_work, go_on, reported = threading.Event(), threading.Event(), threading.Event()
    closed: list[object] = []

    async def fetch() -> None: ...

    def work() -> object:
        at_work.set()
        go_on.wait(PATIENCE_S)
        closed.append(fetch())
        return closed[0]

    def report(error: BaseException, _timer: object) -> None:
        told.append(type(error).__name__)
        reported.set()

    async def scenario() -> None:
        driver = AsyncioDriver()
        held.append(TimerWheel(wheel=design(), driver=driver, executor=pool, on_error=report))
        held[0].call_later(0, work)
        await asyncio.to_thread(at_work.wait, PATIENCE_S)

    held: list[TimerWheel] = []
    with PoolExecutor(1) as pool:
        run(scenario)
        go_on.set()
        assert reported.wait(PATIENCE_S)
    assert told == ["RuntimeError"]
    assert closed[0].cr_frame is None, "it was closed"
