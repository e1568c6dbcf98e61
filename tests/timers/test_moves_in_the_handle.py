"""
Moves to a later deadline change only the timer's handle, from which the engine later reads the deadline.
"""

from __future__ import annotations

import gc
import random
import weakref

from tickwheel._core import Engine
from tickwheel.testing import ManualClock

SECOND = 1_000_000_000


def nothing() -> None: ...


def test_the_driver_gets_the_moved_deadline() -> None:
    """
    After moves, `arm()` returns the next deadline, and the former deadline causes no wake-up.
    """
    clock = ManualClock(0)
    engine = Engine(clock)
    first, second = engine.call_at(1.0, nothing), engine.call_at(2.0, nothing)
    assert engine.arm() == SECOND
    first.reschedule(5.0)
    assert engine.arm() == 2 * SECOND
    second.reschedule(7.0)
    assert engine.arm() == 5 * SECOND
    assert (first.when(), second.when()) == (5.0, 7.0)
    engine.check()


def test_among_equal_deadlines_the_one_moved_first_fires_first() -> None:
    """
    Among timers with equal deadlines, the timer that was set or moved first fires first.
    """
    clock = ManualClock(0)
    engine, fired = Engine(clock), []
    early, moved = engine.call_at(1.0, fired.append, "early"), engine.call_at(1.5, fired.append, "moved")
    engine.call_at(3.0, fired.append, "set")
    moved.reschedule(3.0)
    early.reschedule(3.0)
    engine.call_at(3.0, fired.append, "set last")
    clock.advance(3.0)
    engine.fire_due()
    assert fired == ["set", "moved", "early", "set last"]


def test_a_timer_that_is_moved_while_its_batch_fires() -> None:
    """
    If a callback moves a timer of the same batch to a later time, the timer fires once, at its new deadline.
    """
    clock = ManualClock(0)
    engine, fired = Engine(clock), []
    timers = {}
    engine.call_at(1.0, lambda: timers["second"].reschedule(4.0))
    timers["second"] = engine.call_at(1.0, fired.append, "second")
    engine.call_at(1.0, fired.append, "third")
    clock.advance(2.0)
    assert engine.fire_due() == 2
    assert (fired, engine.arm()) == (["third"], 4 * SECOND)
    engine.check()
    clock.advance(2.0)
    assert engine.fire_due() == 1
    assert fired == ["third", "second"]


def test_moved_timers_in_lists_drains_and_closes() -> None:
    """
    After moves, `pending()` and `drain()` return the new deadlines in order, with the remaining times.
    """
    clock = ManualClock(0)
    engine = Engine(clock)
    moved = engine.call_at(1.0, print, "moved")
    engine.call_at(2.0, print, "set")
    moved.reschedule(3.0)
    assert [(each.args, each.deadline) for each in engine.pending()] == [(("set",), 2.0), (("moved",), 3.0)]
    drained = [(each.args, each.deadline, each.remaining) for each in engine.drain()]
    assert drained == [(("set",), 2.0, 2.0), (("moved",), 3.0, 3.0)]
    assert moved.cancelled()


def test_many_moved_timers_keep_order_and_instants() -> None:
    """
    If 150,000 timers are moved at random, they fire in order.
    """
    seed = random.randrange(2**32)
    draw, clock = random.Random(seed), ManualClock(0)
    engine, fired = Engine(clock), []
    timers = [engine.call_at(draw.uniform(1, 100), fired.append, number) for number in range(150_000)]
    order = {}
    for move in range(200_000):
        number = draw.randrange(len(timers))
        when = timers[number].when() + draw.choice((0.0, 1e-9, 0.5, 20.0, -0.25))
        order[number] = move
        assert timers[number].reschedule(when)
    for number in draw.sample(range(len(timers)), 20_000):
        assert timers[number].cancel()
    engine.check()
    expected = [number for number, timer in enumerate(timers) if timer.pending()]
    expected.sort(key=lambda number: (timers[number].when(), order.get(number, -1), number))
    while len(engine):
        clock.advance(1.0)
        engine.fire_due()
    assert fired == expected, seed


def test_an_engine_that_is_gone_leaves_its_number_to_the_next() -> None:
    """
    If thousands of engines are made and freed, and later engines reuse their numbers, each timer finds its engine.
    """
    clock = ManualClock(0)
    kept = Engine(clock)
    timer = kept.call_at(1.0, nothing)
    for _ in range(2_000):
        engine = Engine(clock)
        other = engine.call_at(1.0, nothing)
        assert other.reschedule(2.0)
        assert other.cancel()
    gone = weakref.ref(engine)
    del engine, other
    gc.collect()
    assert gone() is None
    assert timer.reschedule(3.0)
    assert kept.arm() == 3 * SECOND
