"""
The engine and the drivers, tested on each design of a wheel.
"""

import asyncio
import threading
from typing import Any

import pytest

from tickwheel import SpanExceededError, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.testing.engine_suite import EngineSuite
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels import CascadingWheel, HierarchicalWheel, NativeWheel, RoundsWheel, SingleWheel

PATIENCE_S = 30
DEFAULT: dict[str, Any] = {
    "native": NativeWheel,
    "single": lambda: SingleWheel(tick=0.001, slots=5_000),
    "rounds": lambda: RoundsWheel(tick=0.001, slots=512),
    "hierarchical": lambda: HierarchicalWheel(tick=0.001, slots=20),
    "cascading": lambda: CascadingWheel(tick=0.001),
}


class TestNativeUnderEngine(EngineSuite):
    """
    The engine's contract suite on a `WheelEngine` that uses the native wheel.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        return WheelEngine(NativeWheel(), clock, max_pending=max_pending)


class TestRoundsUnderEngine(EngineSuite):
    """
    The engine's contract suite on the rounds wheel with a tick of a nanosecond.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        return WheelEngine(RoundsWheel(tick=1e-9, slots=16), clock, max_pending=max_pending)


class TestHierarchicalUnderEngine(EngineSuite):
    """
    The engine's contract suite on hierarchical wheels with a tick of a nanosecond.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        return WheelEngine(HierarchicalWheel(tick=1e-9, slots=16), clock, max_pending=max_pending)


class TestCascadingUnderEngine(EngineSuite):
    """
    The engine's contract suite on cascading rings with a tick of a nanosecond.
    """

    def make_engine(self, clock: ManualClock, max_pending: int | None = None) -> WheelEngine:
        return WheelEngine(CascadingWheel(tick=1e-9), clock, max_pending=max_pending)


@pytest.mark.parametrize("name", DEFAULT)
def test_on_a_manual_clock(name: str) -> None:
    """
    Timers fire in order, never early and less than a tick late, even after the wheel was idle for long.
    """
    clock = ManualClock()
    wheel = TimerWheel(wheel=DEFAULT[name](), clock=clock)
    fired: list[tuple[float, float]] = []

    def note(due: float) -> None:
        fired.append((due, clock.monotonic()))

    for _ in range(3):
        fired.clear()
        for delay in (0.0305, 0.0101, 0.0, 2.5, 0.0102):
            wheel.call_later(delay, note, clock.monotonic() + delay)
        clock.advance(3)
        assert [due for due, _ in fired] == sorted(due for due, _ in fired)
        assert len(fired) == 5
        assert all(-1e-9 < at - due <= 0.001 for due, at in fired)
        assert wheel.stats()["pending"] == 0
        clock.jump(86_400)


def test_a_span_counts_from_now() -> None:
    """
    A ring that was idle for a day accepts a delay as long as its span, and refuses a longer one.
    """
    clock = ManualClock()
    wheel = TimerWheel(wheel=SingleWheel(tick=1, slots=10), clock=clock)
    fired: list[str] = []
    for _ in range(3):
        timer = wheel.call_later(9, fired.append, "tea")
        with pytest.raises(SpanExceededError, match="9000000000 ns"):
            wheel.call_later(9.5, fired.append, "too far")
        with pytest.raises(SpanExceededError):
            timer.restart(10)
        assert len(wheel) == 1
        clock.advance(10)
        clock.jump(86_400)
    assert fired == ["tea"] * 3


@pytest.mark.realtime
@pytest.mark.parametrize("name", DEFAULT)
def test_on_a_thread(name: str) -> None:
    """
    Timers that are set in this thread fire on the driver's thread, in the order of their deadlines.
    """
    wheel = TimerWheel(wheel=DEFAULT[name]())
    done = threading.Event()
    fired: list[int] = []
    all_set = threading.Event()
    wheel.call_later(0, all_set.wait, PATIENCE_S)  # nothing fires while this thread sets timers
    start = wheel.time()
    cancelled = wheel.call_at(start + 0.01, fired.append, -1)
    wheel.call_at(start + 0.02, lambda: (fired.append(20), done.set()))
    for delay_ms in (10, 5, 1):
        wheel.call_at(start + delay_ms / 1_000, fired.append, delay_ms)
    assert cancelled.cancel()
    all_set.set()
    assert done.wait(PATIENCE_S)
    assert fired == [1, 5, 10, 20]
    assert wheel.close() == []


@pytest.mark.realtime
@pytest.mark.parametrize("name", DEFAULT)
def test_on_asyncio(name: str) -> None:
    """
    Timers fire on the running loop, in order.
    """

    async def main() -> list[int]:
        wheel = TimerWheel.asyncio(wheel=DEFAULT[name]())
        done = asyncio.Event()
        fired: list[int] = []
        start = wheel.time()
        for delay_ms in (10, 5, 1):
            wheel.call_at(start + delay_ms / 1_000, fired.append, delay_ms)
        wheel.call_at(start + 0.02, done.set)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        wheel.close()
        return fired

    assert asyncio.run(main()) == [1, 5, 10]
