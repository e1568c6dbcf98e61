"""
The manual driver passes the contract suite, on a manual clock and on the real clock.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tickwheel import ManualDriver, MonotonicClock, ReentrantError, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.testing.driver_suite import DriverSuite, play_here


class TestManualClock(DriverSuite):
    runs_here = True

    def now(self) -> float:
        return self.clock.monotonic_ns() / 1e9

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel(clock=self.clock, **options)

    def play(self, scenario: Any) -> None:
        """
        Run a scenario on a separate manual clock.
        """
        self.clock = ManualClock()
        play_here(scenario)

    async def until(self, signal: threading.Event) -> None:
        while not signal.is_set():
            assert self.clock.jump_to_next() is not None, "nothing is pending any more"


class TestPolled(DriverSuite):
    """
    The contract suite on a user's polling loop, with the real clock.
    """

    def make_wheel(self, **options: Any) -> TimerWheel:
        wheel = TimerWheel(driver=ManualDriver(), **options)
        self.polls.append(wheel._engine.fire_due)  # the poller still has the engine after the wheel is freed
        return wheel

    def play(self, scenario: Any) -> None:
        self.polls: list[Any] = []
        play_here(scenario)

    async def until(self, signal: threading.Event) -> None:
        while not signal.is_set():
            for poll in self.polls:
                poll(10)


def test_fire_due_by_hand():
    """
    Without a manual clock, no timer fires until `fire_due` is called.
    """
    wheel = TimerWheel(clock=MonotonicClock(), driver=ManualDriver())
    fired: list[int] = []
    for number in range(5):
        wheel.call_later(0, fired.append, number)
    assert fired == []
    assert wheel.next_expiration() <= wheel.time()
    assert wheel.fire_due(limit=0) == 0
    while len(fired) < 5:
        assert wheel.fire_due(limit=2) <= 2
    assert fired == [0, 1, 2, 3, 4]
    assert wheel.fire_due() == 0
    assert wheel.next_expiration() is None


def test_fire_due_is_refused_inside_a_callback():
    """
    A callback must not call `fire_due` of its own wheel.
    """
    errors: list[BaseException] = []
    wheel = TimerWheel(driver=ManualDriver(), on_error=lambda error, _: errors.append(error))
    wheel.call_later(0, wheel.fire_due)
    assert wheel.fire_due() == 1
    assert [type(error) for error in errors] == [ReentrantError]


def test_one_driver_one_wheel():
    driver = ManualDriver()
    TimerWheel(driver=driver)
    with pytest.raises(RuntimeError, match="new driver"):
        TimerWheel(driver=driver)


def test_an_exit_leaves_advance():
    """
    If a callback raises an exception such as SystemExit, `advance` raises it, and a later call fires the other timers.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    fired: list[str] = []
    wheel.call_later(1, exit_now)
    wheel.call_later(1, fired.append, "sibling")
    with pytest.raises(SystemExit):
        clock.advance(5)
    assert fired == []
    clock.advance(0)
    assert fired == ["sibling"]


def exit_now() -> None:
    raise SystemExit
