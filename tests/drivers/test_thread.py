"""
The thread driver: the contract suite, and further tests.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from typing import Any

import pytest

from tickwheel import BootClock, MonotonicClock, ThreadDriver, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.testing.driver_suite import PATIENCE_S, DriverSuite, play_here
from tickwheel.wheels.heap import HeapWheel


class TestThread(DriverSuite):
    pytestmark = pytest.mark.realtime

    runs_here = False

    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel(**options)

    def play(self, scenario: Any) -> None:
        play_here(scenario)

    async def until(self, signal: threading.Event) -> None:
        assert signal.wait(PATIENCE_S)


class TestThreadOverHeap(TestThread):
    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel(wheel=HeapWheel(), **options)


class TestThreadOnBootTime(TestThread):
    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel(clock=BootClock(), **options)


class SlowClock(MonotonicClock):
    """
    A clock of an unknown type, at half speed.
    """

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() // 2


class TestThreadOnAnyClock(TestThread):
    def make_wheel(self, **options: Any) -> TimerWheel:
        return TimerWheel(clock=SlowClock(), **options)


def fired(wheel: TimerWheel, delay: float = 0.0) -> None:
    signal = threading.Event()
    wheel.call_later(delay, signal.set)
    assert signal.wait(PATIENCE_S)


def test_no_thread_before_the_first_timer():
    """
    The thread starts with the first timer that can fire. It is a daemon with a name, and ends with `close`.
    """
    wheel = TimerWheel(driver=ThreadDriver("my timers"))
    never = wheel.call_later(float("inf"), print)
    assert "my timers" not in {thread.name for thread in threading.enumerate()}
    seen: list[threading.Thread] = []
    wheel.call_later(0, lambda: seen.append(threading.current_thread()))
    fired(wheel)
    (thread,) = seen
    assert (thread.name, thread.daemon) == ("my timers", True)
    assert never.pending()
    wheel.close()
    assert wheel.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.realtime
def test_one_wakeup_for_one_timer():
    """
    A timer that starts the thread costs one wake-up. Later timers cost none until they are due.
    """
    wheel = TimerWheel()
    fired(wheel, 0.05)
    while wheel.stats()["wakeups"] == 0:  # the timer may have been due when its thread began
        wheel.close()
        wheel = TimerWheel()
        fired(wheel, 0.05)
    assert wheel.stats()["wakeups"] == 1
    for _ in range(100):
        wheel.call_later(3_600, print)
    stats = wheel.stats()
    assert stats["notices"] <= 1, "the first of them is earlier than nothing, the others are not"
    fired(wheel, 0.02)
    assert wheel.stats()["wakeups"] <= 4, "one for the first far timer, one for the near one, one when that is due"
    wheel.close()


@pytest.mark.realtime
def test_no_wakeup_for_later_timers():
    """
    If ten thousand timers with later deadlines are set and cancelled, the thread does not wake up.
    """
    wheel = TimerWheel()
    wheel.call_later(3_000, print)
    fired(wheel, 0.001)
    while wheel.stats()["wakeups"] < 1:
        fired(wheel, 0.001)
    fired(wheel, 0.02)
    before = wheel.stats()["wakeups"]
    for _ in range(10_000):
        wheel.call_later(3_600, print).cancel()
    assert wheel.stats()["wakeups"] == before
    wheel.close()


def test_an_abandoned_wheel_ends_its_thread():
    """
    The thread of an unreferenced wheel ends once no timer is pending, and the engine is then freed.
    """
    before = set(threading.enumerate())
    wheel = TimerWheel()
    fired(wheel)
    (thread,) = set(threading.enumerate()) - before
    signal = threading.Event()
    wheel.call_later(0.01, signal.set)
    held = [wheel]
    del wheel
    with pytest.warns(ResourceWarning, match="unclosed"):
        held.clear()
    assert signal.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_an_exit_ends_the_callback_only(monkeypatch, kind):
    """
    If a callback raises an exception such as SystemExit, `threading.excepthook` gets it, and the thread continues.
    """
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    wheel = TimerWheel(on_error=print)

    def leave() -> None:
        raise kind

    wheel.call_later(0, leave)
    fired(wheel)
    assert [args.exc_type for args in told] == [kind]
    assert told[0].thread.name == "tickwheel"
    wheel.close()


def test_a_hook_that_raises(monkeypatch, capsys):
    """
    If `threading.excepthook` itself raises, Python's original hook is called, and the thread continues.
    """

    def hook(_: threading.ExceptHookArgs) -> None:
        raise LookupError

    def leave() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading, "excepthook", hook)
    wheel = TimerWheel()
    wheel.call_later(0, leave)
    fired(wheel)
    assert "KeyboardInterrupt" in capsys.readouterr().err
    wheel.close()


@pytest.mark.parametrize("design", [lambda: None, HeapWheel], ids=["native", "heap"])
def test_a_clock_that_raises(monkeypatch, design):
    """
    If the clock raises, the thread reports the error, and all timers still fire.
    """

    class Moody(MonotonicClock):
        """
        A clock that raises once, when the test enables this.
        """

        is_bad = False

        def monotonic_ns(self) -> int:
            if self.is_bad and threading.current_thread().name == "tickwheel":
                self.is_bad = False
                raise OSError
            return super().monotonic_ns()

    hooked: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", hooked.append)
    clock = Moody()
    with TimerWheel(clock=clock, wheel=design()) as wheel:
        fired(wheel)
        signals = [threading.Event(), threading.Event()]
        clock.is_bad = True
        wheel.call_later(0.05, signals[0].set)
        wheel.call_later(0.06, signals[1].set)
        assert all(signal.wait(PATIENCE_S) for signal in signals)
    assert [hook.exc_type for hook in hooked] == [OSError]


def test_errors_are_logged(caplog):
    """
    Without `on_error`, the logger tickwheel logs an error with its traceback.
    """
    wheel = TimerWheel()
    with caplog.at_level(logging.ERROR, logger="tickwheel"):
        wheel.call_later(0, lambda: 1 // 0)
        fired(wheel)
    (record,) = caplog.records
    assert record.name == "tickwheel"
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    wheel.close()


def test_leaving_a_with_block_waits_for_the_callback():
    """
    When a `with` block of a wheel is left while a callback is running, the block waits until the callback has ended.
    """
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)
        ended.set()

    with TimerWheel() as wheel:
        wheel.call_later(0, slow)
        assert begun.wait(PATIENCE_S)
        assert not wheel.join(0)
        may_end.set()
    assert ended.is_set()
    assert wheel.join(0)


def test_join_inside_a_callback():
    """
    If a callback closes and joins its own wheel, the join returns False at once instead of waiting for the callback.
    """
    answers: list[bool] = []
    signal = threading.Event()
    wheel = TimerWheel()

    def then() -> None:
        with wheel:
            pass
        answers.append(wheel.join())
        signal.set()

    wheel.call_later(0, then)
    assert signal.wait(PATIENCE_S)
    assert answers == [False]
    assert wheel.join(PATIENCE_S)


def test_a_blocked_callback_blocks_no_other_thread():
    """
    While a callback blocks, other threads can set, cancel and close without waiting.
    """
    begun, may_end = threading.Event(), threading.Event()
    wheel = TimerWheel(on_expire=print)
    wheel.call_later(0, lambda: (begun.set(), may_end.wait(PATIENCE_S)))
    assert begun.wait(PATIENCE_S)
    assert wheel.call_later(0, print).cancel()
    wheel.set("a", 1, 0)
    assert wheel.cancel("a")
    wheel.call_later(5, print)
    assert len(wheel.close()) == 1
    may_end.set()
    assert wheel.join(PATIENCE_S)


def test_a_manual_clock_is_refused():
    """
    A thread driver refuses a manual clock, on which a thread cannot wait. The error names the remedy.
    """
    with pytest.raises(ValueError, match="leave the driver out"):
        TimerWheel(clock=ManualClock(), driver=ThreadDriver())


def test_no_thread_to_be_had(monkeypatch):
    """
    If no thread can be started, the caller gets the error. The next call tries again, and no timer is lost.
    """
    errors, ticks, keys = [], [], []
    wheel = TimerWheel(on_error=lambda error, _: errors.append(error), on_expire=lambda key, _: keys.append(key))
    signals = [threading.Event(), threading.Event()]

    def no_thread(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="new thread"):
            wheel.call_later(0.001, signals[0].set)
        with pytest.raises(RuntimeError, match="new thread"):
            wheel.set("refused", 1, 0.001)
        with pytest.raises(RuntimeError, match="new thread"):
            wheel.call_every(0.001, ticks.append, 1)
    wheel.call_later(0.05, signals[1].set)  # later than the first timer, which still has no thread
    assert all(signal.wait(PATIENCE_S) for signal in signals)
    wheel.close()
    assert (errors, ticks, keys) == ([], [], [])


def test_a_timer_may_fire_before_its_set_returns():
    """
    If thousands of timers are set without a delay, and threads switch often, each timer fires once.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        wheel = TimerWheel()
        count: list[int] = []
        for number in range(3_000):
            wheel.call_later(0, count.append, number)
        fired(wheel)
        assert count == list(range(3_000))
        wheel.close()
    finally:
        sys.setswitchinterval(interval)
