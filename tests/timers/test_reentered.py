"""
A tracer, a signal handler or a finalizer may call an engine between any two lines of the engine's code.
"""

from __future__ import annotations

import sys

import pytest

from tickwheel import ClosedError, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel, HierarchicalWheel, RoundsWheel

WHEELS = {
    "heap": HeapWheel,
    "hierarchical": lambda: HierarchicalWheel(tick=0.001),
    "rounds": lambda: RoundsWheel(tick=0.001, slots=64),
}


class Intruder:
    """
    Sets, moves, cancels and drains timers each time it is called.
    """

    def __init__(self, wheel, first=0):
        self.wheel = wheel
        self.is_busy = False
        self.events, self.count = first, 0

    def __call__(self, *_):
        self.events += 1
        if self.is_busy or self.events % 7:  # at every event, it would set more timers than can fire
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
    If a tracer calls a native wheel between any two lines of a program, no timer is lost, and no call fails.
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
    `check` finds no fault in a wheel, even if other code calls the wheel between any two lines of `check`.
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
HOOKS = {"settrace": sys.gettrace, "setprofile": sys.getprofile}


@pytest.mark.parametrize("end", ["drain", "close"])
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", WHEELS)
def test_an_end_at_any_event_of_a_call(kind, verb, hook, end):
    """
    If a drain or close interrupts a call on a timer at any point, the timer still has exactly one outcome.
    """

    def call(clock, wheel):
        timer = wheel.call_later(1, fired.append, 1)
        return lambda: VERBS[verb](clock, timer)

    fired = []
    for wheel, ended in interrupted_at_each_event(kind, hook, end, call):
        stats = wheel.stats()
        may_cancel = verb == "cancel" or (verb, end) == ("move", "close")
        is_cancelled = may_cancel and stats["cancels"] > len(ended)
        assert len(ended) + len(fired) + len(wheel) + is_cancelled == 1
        fired.clear()


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("call", ["set", "bulk", "again"])
@pytest.mark.parametrize("kind", WHEELS)
def test_a_close_at_any_event_of_a_new_timer(kind, call, hook):
    """
    If a wheel is closed during the call that sets a timer, the call is refused, or `close` returns the timer.
    """
    known = []

    def again():
        if len(known) == 1:
            known.append(known[0].restart(3))

    def prepare(clock, wheel):
        if call == "set":
            return lambda: known.append(wheel.call_later(1, int))
        if call == "bulk":
            return lambda: known.extend(wheel.call_later_many([1, 2, 3], int))
        known.append(wheel.call_later(1, again))
        return lambda: clock.advance(1)

    for wheel, ended in interrupted_at_each_event(kind, hook, "close", prepare):
        assert wheel.closed() == (len(wheel) == 0)
        assert len(ended) <= wheel.stats()["cancels"]
        known.clear()


def interrupted_at_each_event(kind, hook, end, prepare):
    """
    Let *end* interrupt a call at its first trace event, a new call at its second trace event, and so on.

    *prepare* gets a clock and a wheel, and returns the call. Yield the wheel and the result of *end* each time.
    """
    for at in range(100_000):
        clock, ended = ManualClock(), []
        wheel = TimerWheel(wheel=WHEELS[kind](), clock=clock)
        call = prepare(clock, wheel)
        left = at

        def interrupt(*_, wheel=wheel, ended=ended):
            nonlocal left
            left -= 1
            if left == -1:
                ended += getattr(wheel, end)()
            return interrupt

        before = HOOKS[hook]()
        getattr(sys, hook)(interrupt)
        try:
            call()
        except ClosedError:
            assert end == "close"
        finally:
            getattr(sys, hook)(before)
        wheel.check()
        stats = wheel.stats()
        assert stats["sets"] == stats["fires"] + stats["cancels"] + len(wheel), at
        if left >= 0:
            break
        yield wheel, ended
    assert at > 10
