"""
Calls that come in between any two lines of an engine: from a tracer, a signal's handler, or a collection's finalizer.
"""

from __future__ import annotations

import sys

import pytest

from tickwheel import TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel, HierarchicalWheel, RoundsWheel

WHEELS = {
    "heap": HeapWheel,
    "hierarchical": lambda: HierarchicalWheel(tick=0.001),
    "rounds": lambda: RoundsWheel(tick=0.001, slots=64),
}


class Intruder:
    """
    Sets, moves, cancels and drains wherever it is called.
    """

    def __init__(self, wheel, first=0):
        self.wheel = wheel
        self.is_busy = False
        self.events, self.count = first, 0

    def __call__(self, *_):
        self.events += 1
        if self.is_busy or self.events % 7:  # at each event it would bring more than can be done
            return self
        self.is_busy = True
        try:
            self.count += 1
            wheel, number = self.wheel, self.count
            timer = wheel.call_later(number % 3, int)
            timer.restart(1)
            if number % 2:
                timer.cancel()
            wheel.set(number % 7, number, 1)
            if number % 5 == 0:
                wheel.cancel(number % 7)
            if number % 97 == 0:
                wheel.drain()
        finally:
            self.is_busy = False
        return self


def work(clock, wheel):
    for number in range(3):
        timer = wheel.call_later(number % 5, int)
        timer.restart(1)
        wheel.set(number % 13, number, 2)
        if number % 3 == 0:
            timer.cancel()
        wheel.move_many(wheel.call_later_many([1, 2, 3], len)[:2], 2.0)
        wheel.call_every(1, int, times=2)
        wheel.pending()
        clock.advance(0.5)


@pytest.mark.parametrize("hook", ["settrace", "setprofile"])
def test_between_any_two_lines(hook):
    """
    On the default wheel nothing is lost, and no call fails, with interruptions between any two lines.
    """
    clock, errors = ManualClock(), []
    wheel = TimerWheel(clock=clock, on_expire=lambda *_: None, on_error=lambda error, _: errors.append(error))
    intruder = Intruder(wheel)
    before = sys.gettrace() if hook == "settrace" else sys.getprofile()
    getattr(sys, hook)(intruder)
    try:
        work(clock, wheel)
    finally:
        getattr(sys, hook)(before)
    assert intruder.count > 20
    assert errors == []
    wheel.check()
    stats = wheel.stats()
    assert stats["sets"] == stats["fires"] + stats["cancels"] + len(wheel)


@pytest.mark.parametrize("kind", WHEELS)
def test_between_the_lines_of_a_check(kind):
    """
    A check that is interrupted so finds nothing wrong.
    """
    clock = ManualClock()
    wheel = TimerWheel(wheel=WHEELS[kind](), clock=clock, on_expire=lambda *_: None)
    work(clock, wheel)
    intruder = Intruder(wheel)
    before = sys.gettrace()
    sys.settrace(intruder)
    try:
        wheel.check()
    finally:
        sys.settrace(before)
    assert intruder.count > 0
    wheel.check()


VERBS = {
    "move": lambda _, timer: timer.restart(2),
    "cancel": lambda _, timer: timer.cancel(),
    "fire": lambda clock, _: clock.advance(1),
}


@pytest.mark.parametrize("hook", ["settrace", "setprofile"])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", WHEELS)
def test_a_drain_at_any_event_of_a_call(kind, verb, hook):
    """
    A timer has one outcome, wherever a call on it is interrupted by one that drains the wheel.
    """
    at = 0
    while True:
        clock, fired, drained = ManualClock(), [], []
        wheel = TimerWheel(wheel=WHEELS[kind](), clock=clock)
        timer = wheel.call_later(1, fired.append, 1)
        left = at

        def drain(*_, wheel=wheel, drained=drained):
            nonlocal left
            left -= 1
            if left == -1:
                drained += wheel.drain()
            return drain

        before = sys.gettrace() if hook == "settrace" else sys.getprofile()
        getattr(sys, hook)(drain)
        try:
            VERBS[verb](clock, timer)
        finally:
            getattr(sys, hook)(before)
        wheel.check()
        stats = wheel.stats()
        assert stats["sets"] == stats["fires"] + stats["cancels"] + len(wheel), at
        assert len(drained) + len(fired) + len(wheel) + (verb == "cancel" and stats["cancels"] > len(drained)) == 1, at
        if left >= 0:
            break
        at += 1
    assert at > 10
