"""
A timedelta is accepted for each delay and instant, like an int and a float.
"""

from __future__ import annotations

import time
from datetime import timedelta

from tickwheel import InlineExecutor, PoolExecutor, ShardedWheel, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.timers.contexts import background, with_deadline, with_timeout
from tickwheel.wheels.delay_queue import DelayQueue
from tickwheel.wheels.rounds import RoundsWheel

SECOND = timedelta(seconds=1)
TENTH = timedelta(milliseconds=100)


def test_keys():
    """
    A keyed timer can be set and moved by a timedelta, in a plain wheel and in a sharded wheel.
    """
    clock = ManualClock()
    expired: list[object] = []
    for wheel in (
        TimerWheel(clock=clock, on_expire=lambda key, _: expired.append(key)),
        ShardedWheel(2, clock=clock, on_expire=lambda key, _: expired.append(key)),
    ):
        wheel.set("a", None, SECOND)
        wheel.set("b", None, SECOND)
        assert wheel.move("b", 3 * SECOND)
        clock.advance(SECOND)
        assert expired == ["a"]
        clock.advance(2 * SECOND)
        assert expired == ["a", "b"]
        expired.clear()
        wheel.close()
        assert wheel.join(SECOND)


def test_series():
    """
    The interval, the first delay and the jitter of a series accept timedeltas without a loss of precision.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    fired: list[float] = []
    begin = clock.monotonic_ns()
    series = wheel.call_every(
        TENTH, lambda: fired.append(clock.monotonic_ns() - begin), first=SECOND, jitter=0 * SECOND
    )
    clock.advance(2 * SECOND)
    assert fired == [10**9 + number * 10**8 for number in range(11)]
    series.cancel()
    jittered = wheel.call_every(SECOND, print, jitter=TENTH)
    assert wheel.time() + 1 <= jittered.when() <= wheel.time() + 1.1


def test_contexts():
    """
    A context's timeout, deadline, timers and waits accept timedeltas.
    """
    clock = ManualClock(10**13)
    wheel = TimerWheel(clock=clock)
    context = with_timeout(background(wheel), SECOND)
    assert context.deadline() == wheel.time() + 1
    later = with_deadline(context, timedelta(seconds=wheel.time() + 0.5))
    assert later.deadline() == wheel.time() + 0.5
    fired: list[int] = []
    context.call_later(TENTH, fired.append, 1)
    context.call_at(timedelta(seconds=wheel.time()) + 2 * TENTH, fired.append, 2)
    clock.advance(2 * TENTH)
    assert fired == [1, 2]
    clock.advance(SECOND)
    assert context.wait(SECOND)


def test_executors():
    """
    An executor's threshold for slow calls and its timeout for closing accept timedeltas.
    """
    slow: list[float] = []
    clock = ManualClock()
    wheel = TimerWheel(clock=clock, executor=InlineExecutor(timedelta(0), lambda _, took_s: slow.append(took_s)))
    wheel.call_later(0, time.monotonic)
    clock.advance(0)
    assert len(slow) == 1
    pool = PoolExecutor(slow_s=SECOND)
    pool.close()
    assert pool.join(SECOND)


def test_designs_and_queues():
    """
    The tick of a design and the delays of a delay queue accept timedeltas.
    """
    assert RoundsWheel(tick=TENTH).abilities.tick_ns == 10**8
    clock = ManualClock()
    queue: DelayQueue[str] = DelayQueue(clock)
    queue.offer("a", SECOND)
    clock.advance(SECOND)
    assert queue.take(SECOND) == "a"


def test_a_clock_moved_by_hand():
    """
    A timedelta can move a manual clock, and can step its wall clock in either direction.
    """
    clock = ManualClock()
    before, wall = clock.monotonic_ns(), clock.wall_ns()
    clock.jump(SECOND)
    assert clock.monotonic_ns() - before == 10**9
    clock.step_wall(-3 * SECOND)
    assert clock.wall_ns() - wall == -2 * 10**9
