"""
If a signal handler raises between any two lines of the package's code, timers, keys and series stay consistent.
"""

from __future__ import annotations

import contextvars
import gc
import linecache
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from tickwheel import PoolExecutor, ShardedWheel, TimerWheel, background, with_timeout
from tickwheel.cache import TTLCache
from tickwheel.testing import ManualClock
from tickwheel.timers.periodic import Periodic


class Zap(BaseException):
    """
    The exception that the signal handler raises.
    """


@pytest.fixture(autouse=True, scope="module")
def collections_are_short():
    """
    Freeze all existing objects, so that the garbage collections in the tests are short.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_collected():
    """
    Disable garbage collection while lines are counted.
    """
    gc.disable()
    yield
    gc.enable()


def zapped(act: Callable[[], object], number: int) -> bool:
    """
    Call *act* and raise at line event *number* of the package's code. Return True if it was reached.
    """
    count, entered = 0, set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        name = frame.f_code.co_filename
        if "/tickwheel/" not in name or "/testing/" in name:
            return None
        if event == "line":
            place = (frame, frame.f_lineno)
            # At the end of a `with` block its first line is reported again, but no signal handler can run there.
            if linecache.getline(name, frame.f_lineno).lstrip().startswith("with "):
                if place in entered:
                    return trace
                entered.add(place)
            count += 1
            if count == number:
                sys.settrace(None)
                raise Zap
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except Zap:
        return True
    finally:
        sys.settrace(before)
    return count >= number


class Rig:
    """
    A wheel with timers of all kinds.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.expired: list[object] = []
        self.wheel = TimerWheel(clock=self.clock, on_expire=lambda key, _: self.expired.append(key))
        self.timers = [self.wheel.call_later(5 + each, int) for each in range(3)]
        self.ids = self.wheel.call_later_many([5.0, 6.0, 7.0], len)
        self.wheel.set("k", 1, 6)
        self.series = self.wheel.call_every(2, int)
        self.context = with_timeout(background(self.wheel), 15)

    def check(self) -> None:
        """
        Check the invariants of the wheel, and that every timer fires.
        """
        wheel = self.wheel
        wheel.check()
        stats = wheel.stats()
        assert stats["sets"] == stats["cancels"] + stats["fires"] + len(wheel)
        if wheel.closed():
            assert len(wheel) == 0
            return
        fired: list[int] = []
        self.expired.clear()
        wheel.call_later(1, fired.append, 1)
        for key in ("k", "new", "other"):
            wheel.set(key, 2, 1)
            assert wheel.get(key) == 2
        goes_on, before = self.series.pending(), self.series.fired
        self.clock.advance(10)
        assert fired == [1]
        assert sorted(self.expired) == ["k", "new", "other"]
        assert not goes_on or self.series.fired > before
        assert wheel.keys() == []
        self.clock.advance(10)
        assert self.context.done()
        self.series.cancel()
        wheel.drain()
        wheel.check()
        assert len(wheel) == 0


VERBS: dict[str, Callable[[Rig], object]] = {
    "call_later": lambda rig: rig.wheel.call_later(1, int),
    "call_at": lambda rig: rig.wheel.call_at(rig.wheel.time() + 1, int),
    "call_every": lambda rig: rig.wheel.call_every(1, int, times=3),
    "call_cron": lambda rig: rig.wheel.call_cron("* * * * * *", int, times=1),
    "call_at_wall": lambda rig: rig.wheel.call_at_wall(2_000_000_000, int),
    "call_later_many": lambda rig: rig.wheel.call_later_many([1.0, 2.0], len),
    "cancel_many": lambda rig: rig.wheel.cancel_many(rig.ids),
    "move_many": lambda rig: rig.wheel.move_many(rig.ids, 2.0),
    "timer.cancel": lambda rig: rig.timers[1].cancel(),
    "timer.restart": lambda rig: rig.timers[1].restart(1),
    "timer.reschedule": lambda rig: rig.timers[1].reschedule(rig.wheel.time() + 9),
    "set": lambda rig: rig.wheel.set("new", 1, 1),
    "set again": lambda rig: rig.wheel.set("k", 2, 1),
    "set in a context": lambda rig: rig.wheel.set("k", 2, 1, context=contextvars.copy_context()),
    "move": lambda rig: rig.wheel.move("k", 1),
    "cancel": lambda rig: rig.wheel.cancel("k"),
    "find": lambda rig: rig.wheel.find("k"),
    "get": lambda rig: rig.wheel.get("k"),
    "keys": lambda rig: rig.wheel.keys(),
    "pending": lambda rig: rig.wheel.pending(),
    "next_expiration": lambda rig: rig.wheel.next_expiration(),
    "series.pause": lambda rig: rig.series.pause(),
    "series.resume": lambda rig: (rig.series.pause(), rig.series.resume()),
    "series.set_interval": lambda rig: rig.series.set_interval(1),
    "series.run_now": lambda rig: rig.series.run_now(),
    "series.cancel": lambda rig: rig.series.cancel(),
    "with_timeout": lambda rig: with_timeout(rig.context, 1),
    "context.call_later": lambda rig: rig.context.call_later(1, int),
    "context.cancel": lambda rig: rig.context.cancel(),
    "sleep": lambda rig: rig.wheel.sleep(1),
    "every": lambda rig: rig.wheel.every(1),
    "stats": lambda rig: rig.wheel.stats(),
    "drain": lambda rig: rig.wheel.drain(),
    "close": lambda rig: rig.wheel.close(),
    "with": lambda rig: rig.wheel.__exit__(None, None, None),
}


@pytest.mark.parametrize("verb", VERBS)
def test_at_every_line_of_a_verb(verb):
    """
    If a signal handler raises anywhere in a method, the wheel's invariants hold, and timers that are set later fire.
    """
    VERBS[verb](Rig())  # completes the imports of the method
    number = 0
    while True:
        number += 1
        rig = Rig()
        is_reached = zapped(lambda rig=rig: VERBS[verb](rig), number)
        rig.check()
        if not is_reached:
            return


def test_at_every_line_of_a_turn():
    """
    If a signal handler raises anywhere while due timers fire, each timer, key and context still fires once.
    """
    number = 0
    while True:
        number += 1
        rig = Rig()
        rig.series.cancel()
        is_reached = zapped(lambda rig=rig: rig.clock.advance(6.5), number)
        rig.clock.advance(1)
        rig.check()
        if not is_reached:
            return


async def nothing() -> None: ...


def driven(coroutine: Coroutine[Any, Any, Any], _: object) -> None:
    with suppress(StopIteration):
        coroutine.send(None)


SERIES: dict[str, Callable[[TimerWheel], Periodic]] = {
    "interval": lambda wheel: wheel.call_every(2, int, missed="burst"),
    "times": lambda wheel: wheel.call_every(2, int, missed="burst", times=3),
    "jitter": lambda wheel: wheel.call_every(2, int, missed="burst", jitter=0.5),
    "raises": lambda wheel: wheel.call_every(2, int, "x", missed="burst"),
    "coroutine": lambda wheel: wheel.call_every(2, nothing, missed="burst"),
    "cron": lambda wheel: wheel.call_cron("*/2 * * * * *", int, misfire="all"),
    "cron with jitter": lambda wheel: wheel.call_cron("*/2 * * * * *", int, misfire="all", jitter=0.5),
    "cron that awaits": lambda wheel: wheel.call_cron("*/2 * * * * *", nothing, misfire="all"),
}


@pytest.mark.filterwarnings("ignore:coroutine 'nothing' was never awaited")
@pytest.mark.parametrize("is_run_now", [False, True])
@pytest.mark.parametrize("kind", SERIES)
def test_at_every_line_of_a_series(kind, is_run_now):
    """
    If a signal handler raises anywhere while due timers fire, a series loses no firing and continues.
    """
    number = 0
    while True:
        number += 1
        clock = ManualClock()
        wheel = TimerWheel(
            clock=clock, on_error=lambda error, _: isinstance(error, ValueError) or pytest.fail(repr(error))
        )
        wheel._engine.on_coroutine = driven
        series = SERIES[kind](wheel)
        if is_run_now:
            series.run_now()
        start = clock.monotonic()
        is_reached = zapped(lambda clock=clock: clock.advance(2.6), number)
        gc.collect()  # frees a coroutine that was never started, which the error's frames hold
        clock.advance(start + 10.8 - clock.monotonic())
        assert series.missed == 0
        assert series.fired == (3 if kind == "times" else 5 + is_run_now), number
        assert series.pending() is (kind != "times")
        assert (series.given()[0] is bool) is (kind == "times")  # only a series that has ended holds no callback
        wheel.check()
        if not is_reached:
            return


def test_at_every_line_of_a_pool_that_is_full():
    """
    If a signal handler raises anywhere while a full pool refuses a firing of a series, the series continues.
    """

    class Full:
        def serve(self, engine: Any) -> None:
            engine.runner = self.submit

        def submit(self, _: object) -> None:
            raise BufferError

    number = 0
    while True:
        number += 1
        clock = ManualClock()
        wheel = TimerWheel(clock=clock, executor=Full(), on_error=lambda *_: None)
        series = wheel.call_every(2, int, missed="burst")
        start = clock.monotonic()
        is_reached = zapped(lambda clock=clock: clock.advance(2.6), number)
        clock.advance(start + 10.8 - clock.monotonic())
        assert series.missed == 5, number
        assert series.pending()
        if not is_reached:
            return


def test_at_every_line_of_an_expiry():
    """
    If a signal handler raises anywhere while due timers fire, all due keys, deadlines and cached values still expire.
    """
    number = 0
    while True:
        number += 1
        clock, expired, awoken = ManualClock(), [], []
        wheel = TimerWheel(clock=clock, on_expire=lambda key, _, expired=expired: expired.append(key))
        cache = TTLCache(9, 1, wheel=wheel)
        wheel.set("k", 1, 1)
        cache["value"] = 1
        context, sleep = with_timeout(background(wheel), 1), wheel.sleep(1)
        sleep._calls["waiter"] = lambda awoken=awoken: awoken.append(1)
        below = with_timeout(context, 99)
        is_reached = zapped(lambda clock=clock: clock.advance(1), number)
        clock.advance(1)
        assert wheel.get("k") is None, number
        assert len(cache) == 0, number
        assert context.done(), number
        assert below.done(), number
        assert awoken, number
        wheel.check()
        cache["value"] = 1
        clock.advance(1)
        assert len(cache) == 0
        if not is_reached:
            return


@pytest.mark.parametrize("verb", ["set", "move", "cancel", "drain", "add_shard", "close"])
def test_at_every_line_of_a_shard(verb):
    """
    If a signal handler raises anywhere in a method of a sharded wheel, each key is set completely or not at all.
    """
    acts = {
        "set": lambda shards: shards.set("new", 1, 1),
        "move": lambda shards: shards.move("k", 1),
        "cancel": lambda shards: shards.cancel("k"),
        "drain": lambda shards: shards.drain(),
        "add_shard": lambda shards: shards.add_shard(),
        "close": lambda shards: shards.close(),
    }
    number = 0
    while True:
        number += 1
        clock, expired = ManualClock(), []
        shards = ShardedWheel(2, clock=clock, on_expire=lambda key, _, expired=expired: expired.append(key))
        shards.set("k", 1, 6)
        is_reached = zapped(lambda shards=shards: acts[verb](shards), number)
        if verb != "close":
            for key in ("k", "new"):
                shards.set(key, 2, 1)
            clock.advance(10)
            assert sorted(expired) == ["k", "new"]
        if not is_reached:
            return


def test_at_every_line_of_a_submit():
    """
    If a signal handler raises while a callback is submitted to a pool, the pool still runs later callbacks.
    """

    class Due:
        def __init__(self) -> None:
            self.ran = threading.Event()

        def run(self) -> None:
            self.ran.set()

    number = 0
    while True:
        number += 1
        with PoolExecutor(1) as pool:
            is_reached = zapped(lambda pool=pool: pool.submit(Due()), number)
            due = Due()
            pool.submit(due)
            assert due.ran.wait(20)
        if not is_reached:
            return
