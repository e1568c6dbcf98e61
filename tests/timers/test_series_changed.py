"""
A series can be paused, resumed and given a new interval, even inside its callback.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import ClosedError, InvalidDelayError, Periodic, SpanExceededError, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.timers.contract import DueTimer, Engine
from tickwheel.wheels.heap import HeapWheel
from tickwheel.wheels.single import SingleWheel


class Rig:
    """
    A series on a manual clock, and the times at which it fired, in seconds after the start.
    """

    def __init__(self, design: Callable[[], Any]) -> None:
        self.design = design
        self.clock = ManualClock()
        self.start_ns = self.clock.monotonic_ns()
        self.fired: list[float] = []
        self.then: Callable[[], object] = bool
        self.wheel = TimerWheel(wheel=design(), clock=self.clock)

    def every(self, interval: float, **options: Any) -> Periodic:
        return self.wheel.call_every(interval, self.fire, **options)

    def fire(self) -> None:
        """
        Record the time of the firing, and then call the function that the test has chosen.
        """
        self.fired.append(round((self.clock.monotonic_ns() - self.start_ns) / 1e9, 6))
        self.then()


@pytest.fixture(params=["native", "heap"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(HeapWheel if request.param == "heap" else lambda: None)


def test_pause_and_resume(rig):
    """
    A paused series does not fire and is not pending. After a resume it continues in phase.
    """
    series = rig.every(10)
    rig.clock.advance(10)
    assert series.pause()
    assert not series.pause()
    assert (series.paused(), series.pending(), series.when(), len(rig.wheel)) == (True, False, math.inf, 0)
    assert "paused" in repr(series)
    rig.clock.advance(25)
    assert rig.fired == [10]
    assert series.resume()
    assert not series.resume()
    rig.clock.advance(10)
    assert (rig.fired, series.missed, series.fired) == ([10, 40], 0, 2)
    assert series.pause()
    assert series.resume()
    rig.clock.advance(5)
    assert rig.fired == [10, 40, 50]


def test_from_inside(rig):
    """
    The callback of a series may pause and resume the series, and change its interval.
    """
    series = rig.every(10)
    rig.then = series.pause
    rig.clock.advance(35)
    assert (rig.fired, series.paused()) == ([10], True)
    rig.then = lambda: (series.pause(), series.resume())
    series.resume()
    rig.clock.advance(15)
    assert rig.fired == [10, 40, 50]
    rig.then = lambda: series.set_interval(3)
    rig.clock.advance(10)
    rig.then = bool
    rig.clock.advance(6)
    assert rig.fired == [10, 40, 50, 60, 63, 66]


def test_a_new_interval(rig):
    """
    A new interval counts from now. A paused series stays paused.
    """
    series = rig.every(60)
    rig.clock.advance(1)
    assert series.set_interval(2)
    rig.clock.advance(5)
    assert rig.fired == [3, 5]
    assert series.set_interval(60)
    rig.clock.advance(30)
    assert rig.fired == [3, 5]
    series.pause()
    assert series.set_interval(7)
    rig.clock.advance(20)
    assert (rig.fired, series.paused()) == ([3, 5], True)
    series.resume()
    rig.clock.advance(1)
    assert rig.fired == [3, 5, 57]


def test_a_change_that_is_refused(rig):
    """
    A new interval that the wheel cannot hold is refused, and the series continues as before.
    """
    wheel = TimerWheel(wheel=SingleWheel(tick=1, slots=10), clock=rig.clock)
    series = wheel.call_every(5, rig.fire)
    with pytest.raises(SpanExceededError):
        series.set_interval(50)
    rig.clock.advance(22)
    assert (len(rig.fired), series.fired, series.missed) == (4, 4, 0)
    series.pause()
    assert series.set_interval(50)
    with pytest.raises(SpanExceededError):
        series.resume()
    assert series.paused()
    assert series.set_interval(5)
    assert series.resume()
    rig.clock.advance(6)
    assert series.fired == 5


def test_an_ended_series_stays_ended(rig):
    """
    A series that has ended, was cancelled, or whose wheel was closed can be neither paused nor resumed.
    """
    done, cancelled, paused = rig.every(1, times=1), rig.every(5), rig.every(5)
    rig.clock.advance(1)
    cancelled.cancel()
    for series in (done, cancelled):
        assert (series.pause(), series.resume(), series.set_interval(1)) == (False, False, False)
    for interval, error in ((0, ValueError), (math.nan, InvalidDelayError), ("1", TypeError), (math.inf, ValueError)):
        with pytest.raises(error, match="interval is"):
            paused.set_interval(interval)
    paused.pause()
    rig.wheel.close()
    with pytest.raises(ClosedError):
        paused.resume()
    assert paused.cancel()
    assert rig.fired == [1]


def test_times_is_a_count(rig):
    """
    `times` must be an integer, because the number of firings of a series is always an integer.
    """
    for times in (1.5, "2", 2.0):
        with pytest.raises(TypeError, match=f"times is {times!r}: pass an integer"):
            rig.every(1, times=times)
    assert len(rig.wheel) == 0


class Held:
    """
    An executor that runs its callbacks only when the test requests it.
    """

    def __init__(self) -> None:
        self.waiting: list[DueTimer] = []

    def serve(self, engine: Engine) -> None:
        engine.runner = self.waiting.append

    def stats(self) -> dict[str, Any]:
        return {}

    def run(self) -> None:
        waiting, self.waiting[:] = self.waiting.copy(), []
        for timer in waiting:
            timer.run()


def test_changed_while_it_waits(rig):
    """
    If a series is paused or changed while a firing waits for a worker, this firing does nothing.
    """
    held = Held()
    wheel = TimerWheel(wheel=rig.design(), clock=rig.clock, executor=held)
    series = wheel.call_every(10, rig.fire)
    rig.clock.advance(12)
    assert series.pause()
    held.run()
    assert series.resume()
    rig.clock.advance(10)
    assert series.pause()
    assert series.resume()
    held.run()
    assert (rig.fired, series.fired, series.missed) == ([], 0, 0)
    for _ in range(3):
        rig.clock.advance(8)
        held.run()
    assert rig.fired == [30, 46]
    rig.clock.advance(4)
    assert len(held.waiting) == 1
    assert series.set_interval(3)
    held.run()
    rig.clock.advance(3)
    held.run()
    assert (rig.fired, series.fired, series.missed) == ([30, 46, 53], 3, 0)


def test_a_firing_that_was_overtaken(rig):
    """
    If a series was paused and resumed before a worker begins a firing, this firing does nothing.
    """
    held = Held()
    wheel = TimerWheel(wheel=rig.design(), clock=rig.clock, executor=held)
    series = wheel.call_every(10, rig.fire)
    rig.clock.advance(10)
    assert series.pause()
    assert series.resume()
    series()  # like a worker that took the firing before
    assert rig.fired == []
    rig.then = series
    rig.clock.advance(10)
    held.run()
    assert (rig.fired, series.fired, len(wheel)) == ([20], 1, 1)
    rig.then = bool
    assert [series.pause(), series.resume(), series.pause(), series.resume()] == [True] * 4
    rig.clock.advance(10)
    rig.then = held.run
    series()  # like a late worker, while the series fires in another one
    assert (rig.fired, series.fired, series.pending(), len(wheel)) == ([20, 30], 2, True, 1)


def test_due_again_before_the_call_has_ended(rig):
    """
    If the next firing already waits for a worker when a call of the callback ends, the series continues.
    """
    held = Held()
    wheel = TimerWheel(wheel=rig.design(), clock=rig.clock, executor=held)
    series: Any = wheel.call_every(10, rig.fire, missed="burst")
    set_next = series._set

    def set_and_hand_over(when: float) -> None:
        set_next(when)
        wheel._engine.fire_due()

    series._set = set_and_hand_over
    rig.clock.advance(30)
    for _ in range(4):
        held.run()
    assert (rig.fired, series.fired, len(wheel)) == ([30] * 3, 3, 1)
    rig.clock.advance(10)
    held.run()
    assert rig.fired == [30] * 3 + [40]
