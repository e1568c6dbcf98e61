"""
A manual clock moves only on request, stops at each deadline, and fires the engines that are attached to it.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel import Clock, TimerWheel
from tickwheel.drivers import SteppedClock
from tickwheel.testing import ManualClock


def test_it_is_a_clock():
    """
    A manual clock satisfies the protocols of a clock and of a clock that can be stepped.
    """
    assert isinstance(ManualClock(), Clock)
    assert isinstance(ManualClock(), SteppedClock)


def test_the_start():
    """
    A manual clock starts at a random time. Its repr shows this time, so that another clock can start there.
    """
    starts = {ManualClock().monotonic_ns() for _ in range(20)}
    assert len(starts) == 20
    clock = ManualClock()
    start = clock.monotonic_ns()
    clock.advance(1)
    assert repr(clock) == f"ManualClock(start_ns={start}, now_ns={start + 10**9})"
    assert ManualClock(start).monotonic_ns() == start
    assert ManualClock(0).monotonic() == 0.0


@pytest.mark.parametrize("start", [-1, 2**63 - 1, 2**64])
def test_no_start(start):
    with pytest.raises(ValueError, match=f"start_ns is {start}"):
        ManualClock(start)


def test_invalid_wall_times():
    """
    A start that is not an integer number of nanoseconds is refused, and so are wall times out of range.
    """
    for start in (1.5, "1", True):
        with pytest.raises(TypeError, match=f"start_ns is {start!r}: pass an integer of nanoseconds"):
            ManualClock(start)
    clock = ManualClock()
    before = clock.wall_ns()
    for wall in (-5, -1e-9, float("inf"), float("-inf"), float("nan"), 2**63 / 1e9, 1e300):
        for use in (clock.set_wall, lambda wall: ManualClock(wall=wall)):
            with pytest.raises(ValueError, match="wall is"):
                use(wall)
    for step in (float("inf"), float("-inf"), float("nan"), -1e300, 2**63 / 1e9):
        with pytest.raises(ValueError, match="step is"):
            clock.step_wall(step)
    with pytest.raises(TypeError, match="wall is None"):
        clock.set_wall(None)
    assert clock.wall_ns() == before


@pytest.mark.parametrize("move", ["advance", "jump"])
@pytest.mark.parametrize("delay", [-1, -1e-9, float("nan"), float("inf"), 1e300])
def test_invalid_moves(move, delay):
    """
    A move to an earlier time, or beyond the maximum, is refused.
    """
    clock = ManualClock()
    before = clock.monotonic_ns()
    with pytest.raises(ValueError, match="delay is"):
        getattr(clock, move)(delay)
    assert clock.monotonic_ns() == before


def test_advance_stops_at_each_deadline():
    """
    While `advance` moves the time, each timer on every wheel sees exactly its own deadline.
    """
    clock = ManualClock()
    wheels = [TimerWheel(clock=clock) for _ in range(2)]
    start = clock.monotonic()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, round(clock.monotonic() - start, 6)))

    wheels[0].call_later(1, note, "a")
    wheels[1].call_later(2, note, "b")
    wheels[0].call_later(
        3, lambda: (note("c"), wheels[1].call_later(0.5, note, "d"), wheels[0].call_later(0, note, "e"))
    )
    wheels[1].call_later(5, note, "not yet")
    clock.advance(4)
    assert seen == [("a", 1), ("b", 2), ("c", 3), ("e", 3), ("d", 3.5)]
    assert round(clock.monotonic() - start, 6) == 4


def test_jump_goes_in_one_step():
    """
    After a jump all due timers fire, and see the time after the jump.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    start = clock.monotonic()
    seen: list[float] = []
    for delay in (1, 2, 3):
        wheel.call_later(delay, lambda: seen.append(round(clock.monotonic() - start, 6)))
    clock.jump(2.5)
    assert seen == [2.5, 2.5]


def test_jump_to_next():
    """
    `jump_to_next` moves the clock to the next deadline, fires the timers, and returns the seconds moved.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    fired: list[int] = []
    wheel.call_later(float("inf"), print)
    wheel.call_later(0, fired.append, 0)
    wheel.call_later(7.5, fired.append, 1)
    wheel.call_later(10, fired.append, 2)
    assert [clock.jump_to_next() for _ in range(4)] == [0, 7.5, 2.5, None]
    assert fired == [0, 1, 2]


def test_time_passes_inside_a_callback():
    """
    Inside a callback, `advance` only moves the clock. Timers that become due fire after the callback.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    start = clock.monotonic()
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, round(clock.monotonic() - start, 6)))

    wheel.call_later(1, lambda: (clock.jump(3), note("slow")))
    wheel.call_later(2, note, "late")
    clock.advance(1)
    assert seen == [("slow", 4), ("late", 4)]
    assert round(clock.monotonic() - start, 6) == 4


def test_the_wall_clock_can_be_set_separately():
    """
    The wall clock moves with the clock. It can also be set or stepped, and this has no effect on timers.
    """
    clock = ManualClock(wall=1_000)
    wheel = TimerWheel(clock=clock)
    fired: list[int] = []
    wheel.call_later(10, fired.append, 1)
    assert clock.wall_ns() == 1_000 * 10**9
    clock.advance(5)
    assert clock.wall_ns() == 1_005 * 10**9
    clock.step_wall(-3_600)
    clock.step_wall(86_400.5)
    assert clock.wall_ns() == (1_005 - 3_600 + 86_400) * 10**9 + 5 * 10**8
    clock.set_wall(42)
    assert (clock.wall_ns(), fired) == (42 * 10**9, [])
    clock.advance(5)
    assert (clock.wall_ns(), fired) == (47 * 10**9, [1])


def test_a_timer_that_keeps_setting_itself_is_an_error():
    """
    If a timer keeps setting itself with no delay, `advance` raises an error.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)

    def again() -> None:
        wheel.call_later(0, again)

    again()
    with pytest.raises(RuntimeError, match="time stays at"):
        clock.advance(1)


def test_a_finite_burst_is_not_an_endless_loop():
    """
    If a series makes up for many missed firings, the manual clock does not report an endless loop.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    fired: list[int] = []
    wheel.call_every(1 / 1024, fired.append, 1, missed="burst")
    clock.jump(100.0001)
    assert len(fired) == 102_400


def test_a_burst_that_falls_further_behind():
    """
    If a series' callback takes longer than the interval, `advance` reports an endless loop.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    wheel.call_every(1, clock.advance, 2, missed="burst")
    with pytest.raises(RuntimeError, match="longer than its interval"):
        clock.advance(5)


def test_timers_without_end_in_the_past():
    """
    If a timer keeps setting itself in the past, `advance` reports an endless loop.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    passed = wheel.time()
    clock.advance(2)

    def again(delay: int) -> None:
        wheel.call_at(passed + delay, again, 1 - delay)

    again(0)
    with pytest.raises(RuntimeError, match="time stays at"):
        clock.advance(1)


def test_attaching_twice_and_detaching():
    """
    Attaching a wheel twice has no effect, and neither has detaching a wheel that is not attached.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    clock.attach(wheel._engine)
    fired: list[int] = []
    wheel.call_later(1, fired.append, 1)
    clock.advance(1)
    assert fired == [1]
    wheel.close()
    assert clock._attached == []
    clock.detach(wheel._engine)


def test_moved_by_two_threads():
    """
    If two threads move the clock at the same time, both moves count.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    start = clock.monotonic_ns()
    fired: list[int] = []
    for number in range(200):
        wheel.call_later(number / 100, fired.append, number)
    threads = [threading.Thread(target=lambda: [clock.advance(0.01) for _ in range(100)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fired == list(range(200))
    assert clock.monotonic_ns() == start + 2 * 10**9
