"""
The end of a series, additional firings, and the context in which the series runs.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from tickwheel import PoolExecutor, TaskExecutor, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel

WHEELS = pytest.mark.parametrize("design", [None, HeapWheel], ids=["native", "heap"])
name = contextvars.ContextVar("name", default="none")


def make(design):
    """
    Return a manual clock, a wheel, and a list to which series of the wheel append their times.
    """
    clock = ManualClock(1_000 * 10**9)
    wheel = TimerWheel(clock=clock, wheel=design and design())
    fired = []
    return clock, wheel, fired, lambda: fired.append(round(wheel.time() - begin, 6))


begin = 1_000.0


@WHEELS
def test_until(design):
    """
    A series fires at `until` but never later.
    """
    clock, wheel, fired, note = make(design)
    series = wheel.call_every(1, note, until=begin + 3)
    both = wheel.call_every(1, int, until=begin + 3, times=2)
    late = wheel.call_every(1, int, until=begin + 3)
    assert late.pause()
    clock.advance(10)
    assert fired == [1, 2, 3]
    assert (series.pending(), series.cancelled(), series.fired, both.fired) == (False, False, 3, 2)
    assert not late.resume()
    other = wheel.call_every(1, int, until=wheel.time() + 3)
    assert not other.set_interval(4)
    assert not other.pending()
    wheel.call_every(1, note, until=float("inf")).cancel()
    assert len(wheel) == 0
    wheel.check()


@WHEELS
@pytest.mark.parametrize("until", [0, -1, begin + 0.5])
def test_until_before_the_first(design, until):
    """
    If `until` is before the first firing, it is refused, and the error has both instants.
    """
    _, wheel, _, note = make(design)
    with pytest.raises(ValueError, match=r"until is .*the first firing is at 1001"):
        wheel.call_every(1, note, until=until)
    with pytest.raises(ValueError, match="until"):
        wheel.call_every(1, note, until=float("nan"))
    assert len(wheel) == 0


@WHEELS
def test_run_now(design):
    """
    `run_now` makes a series fire in the next turn of the wheel, and the phase stays the same.
    """
    clock, wheel, fired, note = make(design)
    series = wheel.call_every(1, note, times=5)
    clock.advance(0.25)
    assert series.run_now()
    clock.advance(0)
    clock.advance(1)
    assert series.run_now()
    assert series.run_now()
    clock.advance(1)
    assert fired == [0.25, 1, 1.25, 2]
    assert series.pause()
    assert not series.run_now()
    assert series.resume()
    clock.advance(5)
    assert fired == [0.25, 1, 1.25, 2, 3]
    assert (series.fired, series.missed, series.run_now()) == (5, 0, False)


@WHEELS
def test_run_now_inside(design):
    """
    If the callback of a series calls `run_now`, the series fires once more in the next turn of the wheel.
    """
    clock, wheel, fired, note = make(design)

    def act():
        note()
        if len(fired) == 1:
            assert series.run_now()

    series = wheel.call_every(1, act)
    clock.advance(2.5)
    assert fired == [1, 1, 2]
    series.cancel()


def test_a_series_is_complete_before_others_see_it():
    """
    If another thread sees a series while it is being set, the series already has all attributes of a handle.
    """
    seen = []
    clock, wheel, _, note = make(None)
    engine = wheel._engine
    call_at = engine.call_at

    class Engine:
        """
        An engine that lets another thread run before it returns.
        """

        def __getattr__(self, verb):
            return getattr(engine, verb)

        def __len__(self):
            return len(engine)

        def call_at(self, *args, **options):
            timer = call_at(*args, **options)
            other = threading.Thread(target=lambda: seen.extend(each.timer.when() for each in wheel.pending(None)))
            other.start()
            other.join(20)
            return timer

    wheel._engine = Engine()
    series = wheel.call_every(5, note)
    assert seen == [begin + 5]
    wheel._engine = engine
    assert [each.timer for each in wheel.close()] == [series]
    assert series.cancelled()
    del clock


def test_callbacks_of_a_pool_in_its_context():
    """
    If a callback was set without its own context, it runs in a copy of the pool's context.
    """
    seen, ended = [], threading.Event()

    def see():
        seen.append(name.get())
        name.set("changed")
        if len(seen) == 3:
            ended.set()

    given, own = contextvars.copy_context(), contextvars.copy_context()
    given.run(name.set, "pool")
    own.run(name.set, "own")
    with PoolExecutor(1, context=given) as pool, TimerWheel(executor=pool) as wheel:
        wheel.call_later(0, see)
        wheel.call_later(0.001, see)
        wheel.call_later(0.002, see, context=own)
        assert ended.wait(20)
    assert seen == ["pool", "pool", "own"]
    with pytest.raises(TypeError, match="context is 5"):
        PoolExecutor(context=5)


@WHEELS
def test_coroutines_of_a_task_executor_keep_the_context(design):
    """
    With a TaskExecutor, a coroutine runs in a copy of the context in which its timer, key or series was set.
    """

    async def main():
        seen = {}

        async def see(verb, *_):
            await asyncio.sleep(0)
            seen[verb] = name.get()
            if len(seen) == 3:
                ended.set()

        ended = asyncio.Event()
        with TimerWheel(executor=TaskExecutor(), on_expire=see, wheel=design and design()) as wheel:
            for verb in ("later", "every", "key"):
                name.set(verb)
                if verb == "later":
                    wheel.call_later(0.001, see, verb)
                elif verb == "every":
                    wheel.call_every(0.001, see, verb, times=2)
                else:
                    wheel.set(verb, 1, 0.001)
            name.set("none")
            async with asyncio.timeout(20):
                await ended.wait()
        assert seen == {"later": "later", "every": "every", "key": "key"}

    asyncio.run(main())
