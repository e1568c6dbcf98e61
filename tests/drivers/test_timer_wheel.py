"""
The methods and subclasses of TimerWheel, and the arguments that it refuses.
"""

from __future__ import annotations

import copy
import gc
import inspect
import math
import pickle
import threading
import weakref
from typing import Any
from unittest import mock

import pytest

from tickwheel import SpanExceededError, TimerWheel, TooManyTimersError
from tickwheel._core import Engine
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel
from tickwheel.wheels.single import SingleWheel


def test_the_native_wheel_is_the_default():
    assert type(TimerWheel().call_later.__self__) is Engine


def test_the_hot_verbs_are_the_engines_own():
    """
    `call_later` and `call_at` of a wheel are methods of its engine, with the docstrings and signatures of TimerWheel.
    """
    wheel = TimerWheel(clock=ManualClock())
    assert type(wheel.call_later.__self__) is Engine
    assert wheel.call_at.__self__ is wheel.call_later.__self__
    for verb in (TimerWheel.call_later, TimerWheel.call_at):
        assert "context" in (verb.__doc__ or "") or "call_later" in (verb.__doc__ or "")
        names = list(inspect.signature(verb).parameters)
        assert names[2:] == ["callback", "args", "slack", "context"]


@pytest.mark.parametrize("make", [lambda: None, HeapWheel], ids=["native", "heap"])
def test_the_class_level_verbs_work(make):
    """
    `TimerWheel.call_later` and `TimerWheel.call_at` can be called with a wheel as the first argument.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock, wheel=make())
    fired: list[Any] = []
    TimerWheel.call_later(wheel, 1, fired.append, "later")
    TimerWheel.call_at(wheel, wheel.time() + 2, fired.append, "at", slack=0.5)
    clock.advance(3)
    assert fired == ["later", "at"]


def test_a_subclass_that_overrides_is_called():
    """
    If a subclass overrides `call_later`, its method is called, and may call the base method.
    """

    class Counting(TimerWheel):
        count = 0

        def call_later(self, delay: float, callback: Any, /, *args: Any, **options: Any) -> Any:
            self.count += 1
            return super().call_later(delay, callback, *args, **options)

    clock = ManualClock()
    wheel = Counting(clock=clock)
    fired: list[int] = []
    wheel.call_later(1, fired.append, 1)
    wheel.call_at(wheel.time(), fired.append, 2)
    clock.advance(1)
    assert (wheel.count, fired) == (1, [2, 1])
    assert type(wheel.call_at.__self__) is Engine


def test_a_subclass_with_its_own_init():
    class Named(TimerWheel):
        def __init__(self, name: str, **options: Any) -> None:
            super().__init__(**options)
            self.name = name

    wheel = Named("mine", clock=ManualClock())
    assert wheel.name == "mine"
    assert repr(wheel) == "<Named 0 pending>"


def test_repr_and_truth():
    """
    The repr shows the number of pending timers, and a wheel is always true.
    """
    wheel = TimerWheel(clock=ManualClock())
    assert (len(wheel), bool(wheel), repr(wheel)) == (0, True, "<TimerWheel 0 pending>")
    wheel.call_later(1, print)
    assert (len(wheel), repr(wheel)) == (1, "<TimerWheel 1 pending>")
    wheel.close()
    assert repr(wheel) == "<TimerWheel closed>"


def test_it_cannot_be_pickled_or_copied():
    """
    Pickling or copying a wheel raises an error that names the class of the wheel.
    """
    wheel = TimerWheel(clock=ManualClock())
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="TimerWheel cannot be pickled"):
            make(wheel)


def test_the_time_of_a_wheel():
    """
    `time()` of a wheel returns the seconds of its clock, and `when()` of a timer is a time of that clock.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    assert wheel.time() == clock.monotonic()
    timer = wheel.call_later(1.5, print)
    assert timer.when() == pytest.approx(wheel.time() + 1.5, abs=1e-9)
    assert wheel.next_expiration() == timer.when()


@pytest.mark.parametrize("make_wheel", [lambda: None, HeapWheel])
def test_a_frozen_monotonic_clock_is_ignored(make_wheel):
    """
    If a library freezes Python's clocks, a wheel and its timers ignore this.
    """
    fired = threading.Event()
    with mock.patch("time.monotonic_ns", return_value=2**60), TimerWheel(wheel=make_wheel()) as wheel:
        wheel.call_at(wheel.time() + 0.01, fired.set)
        assert fired.wait(10)


def test_max_pending():
    """
    If `max_pending` timers are pending, a further timer is refused, until one is cancelled.
    """
    wheel = TimerWheel(clock=ManualClock(), max_pending=1)
    timer = wheel.call_later(1, print)
    with pytest.raises(TooManyTimersError, match="1 timers"):
        wheel.call_later(1, print)
    timer.cancel()
    wheel.call_later(1, print)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_pending": -1}, ValueError, "max_pending is -1: pass an integer, 0 or more, or None"),
        ({"max_pending": 2.5}, TypeError, "max_pending is 2.5: pass an integer"),
        ({"max_pending": 2**64}, ValueError, "max_pending is 18446744073709551616: pass an integer, below 2"),
        ({"wheel": 5}, TypeError, r"wheel is 5: pass an object with insert\(\)"),
        ({"clock": 5}, TypeError, r"clock is 5: pass an object with monotonic_ns\(\)"),
        ({"driver": 5}, TypeError, r"driver is 5: pass an object with start\(\)"),
        ({"executor": 5}, TypeError, r"executor is 5: pass an object with serve\(\)"),
        ({"on_error": 5}, TypeError, r"on_error is 5: pass an object with __call__\(\)"),
    ],
)
def test_invalid_parts_of_a_wheel(options, error, message):
    """
    Invalid parts of a wheel are refused when the wheel is made, and the error names the part.
    """
    with pytest.raises(error, match=message):
        TimerWheel(**options)


def test_a_design_belongs_to_one_wheel():
    """
    A design (the data structure of a wheel) is refused if another wheel uses it, or if it has entries.
    """
    clock, design, fired = ManualClock(), HeapWheel(), []
    wheel = TimerWheel(wheel=design, clock=clock)
    wheel.call_later(1, fired.append, "fired")
    with pytest.raises(RuntimeError, match="wheel is <HeapWheel 1 pending>, which another TimerWheel has already"):
        TimerWheel(wheel=design, clock=clock)
    clock.advance(1)
    wheel.close()
    del wheel
    gc.collect()
    TimerWheel(wheel=design, clock=clock).call_later(1, fired.append, "again")
    clock.advance(1)
    assert fired == ["fired", "again"]
    other = HeapWheel()
    other.insert(5, "mine")
    with pytest.raises(ValueError, match="wheel is <HeapWheel 1 pending>: pass an empty one"):
        TimerWheel(wheel=other, clock=clock)


@pytest.mark.parametrize("make", [lambda: None, HeapWheel])
def test_a_limit_is_a_number(make):
    """
    The argument `limit` may be any integer from 0 on. For any other value, the error names the argument.
    """
    wheel = TimerWheel(wheel=make(), clock=ManualClock())
    wheel.call_later(0, int)
    for verb in (wheel.pending, wheel.fire_due):
        with pytest.raises(TypeError, match="limit is 'x': pass an integer or None"):
            verb("x")
        with pytest.raises(ValueError, match="limit is -1: pass 0 or more, or None"):
            verb(-1)
    assert len(wheel.pending(2**70)) == 1
    assert wheel.fire_due(2**70) == 1


@pytest.mark.parametrize("make", [lambda: None, HeapWheel])
def test_a_context_is_a_context(make):
    """
    A value that is not a context is refused as soon as it is passed as one, and the error names the argument.
    """
    wheel = TimerWheel(wheel=make(), clock=ManualClock())
    for verb in (wheel.call_later, wheel.call_at):
        with pytest.raises(TypeError, match=r"context is 3: pass a contextvars\.Context, or None"):
            verb(1, print, context=3)
    assert len(wheel) == 0


def test_a_wheel_in_a_cycle_is_collected():
    """
    A wheel in a reference cycle with its callbacks, keys and handles is collected with its timers.
    """

    def cycle() -> weakref.ref[TimerWheel]:
        holder: list[Any] = []
        wheel = TimerWheel(clock=ManualClock(), on_expire=lambda *_: holder, on_error=lambda *_: holder)
        holder.append(wheel)
        wheel.call_later(1, holder.append, holder)
        wheel.set("a", holder, 5)
        return weakref.ref(wheel)

    watched = cycle()
    assert watched() is not None
    gc.collect()
    assert watched() is None


def test_a_wheel_of_limited_span():
    """
    A delay that is longer than the design can hold is refused, and nothing is set.
    """

    class Short(HeapWheel):
        """
        A design that refuses delays of more than an hour.
        """

        latest = 0

        def advance(self, now: int, limit: int | None = None) -> list[Any]:
            self.latest = now
            return super().advance(now, limit)

        def _admit(self, deadline: int) -> None:
            span_ns = 3_600 * 10**9
            if deadline - self.latest > span_ns:
                raise SpanExceededError(deadline - self.latest, span_ns)

    clock = ManualClock()
    wheel = TimerWheel(clock=clock, wheel=Short(), on_expire=print)
    clock.advance(0)
    wheel._engine.fire_due()
    timer = wheel.call_later(1, print)
    when = timer.when()
    for refused in (
        lambda: wheel.call_later(4_000, print),
        lambda: timer.restart(4_000),
        lambda: wheel.set(1, 2, 4_000),
    ):
        with pytest.raises(SpanExceededError):
            refused()
    assert (len(wheel), timer.when(), timer.pending(), 1 in wheel) == (1, when, True, False)
    wheel.check()
    assert wheel.stats()["sets"] == 1


def test_many_moves_on_a_wheel_of_limited_span():
    """
    If one of many moves has a delay that the design cannot hold, no timer is moved.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock, wheel=SingleWheel(tick=0.1, slots=10))
    ids = wheel.call_later_many([0.3, 0.4], print)
    timers = [wheel.call_later(0.3, print), wheel.call_later(0.4, print)]
    clock.advance(0.25)
    before = [each.deadline for each in wheel.pending()]
    for refused in (
        lambda: wheel.move_many(timers, [0.6, 100]),
        lambda: wheel.move_many(ids, [0.6, 100]),
        lambda: wheel.move_many([*ids, *timers], 100),
    ):
        with pytest.raises(SpanExceededError):
            refused()
    assert [each.deadline for each in wheel.pending()] == before
    assert wheel.stats()["moves"] == 0
    assert wheel.move_many([*ids, *timers], [0.6, float("inf"), 0.8, 0]) == 4
    wheel.check()


@pytest.mark.parametrize("slack", [0.001, 0.4, 1.0, 1e6, math.inf])
@pytest.mark.parametrize("offset", [0.0, 0.003, 0.0999, 0.7])
def test_slack_stays_within_a_limited_span(slack, offset):
    """
    A delay that the design can hold is accepted with any slack.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock, wheel=SingleWheel(tick=0.1, slots=10))
    for _ in range(20):
        clock.advance(0.017)
        clock.jump(offset)
        for delay in (0.9, 0.899, 0.5):
            timer = wheel.call_later(delay, print, slack=slack)
            assert wheel.time() + delay - 1e-9 <= timer.when() <= wheel.time() + 0.9 + 1e-9
            assert wheel.call_at(wheel.time() + 0.8, print, slack=slack).when() <= wheel.time() + 0.9 + 1e-9
        wheel.call_later_many([0.9, 0.5], print, slack=slack)
        with pytest.raises(SpanExceededError):
            wheel.call_later(1.0, print, slack=slack)
        wheel.drain()


@pytest.mark.parametrize("missed", ["skip", "burst", "delay"])
@pytest.mark.parametrize("jitter", [0.001, 0.4, 1.0, 1e6])
@pytest.mark.parametrize("interval", [0.05, 0.3, 0.899, 0.9])
def test_the_jitter_of_a_series_stays_within_a_limited_span(interval, jitter, missed):
    """
    If the design can hold the interval of a series, the series fires with any jitter.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock, wheel=SingleWheel(tick=0.1, slots=10))
    series = wheel.call_every(interval, int, jitter=jitter, missed=missed)
    cron = wheel.call_cron("* * * * *", int, tz="UTC", jitter=jitter)
    for step in (0.3, 1.0, 1.7):
        clock.advance(interval * step)
        assert series.pause()
        assert series.resume()
        assert series.run_now()
        assert series.set_interval(interval)
        assert wheel.time() <= series.when() <= wheel.time() + 0.9 + 1e-9
    clock.advance(130.0)
    assert series.pending()
    assert series.fired > 3
    assert cron.pending()
    assert cron.fired > 0 or jitter > 1.0
    with pytest.raises(SpanExceededError):
        wheel.call_every(1.0, int, jitter=jitter)
    wheel.check()
