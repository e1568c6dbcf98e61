"""
Known faults of published wheels, which the wheels of tickwheel must not have.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from tickwheel.clock import to_deadline
from tickwheel.errors import SpanExceededError
from tickwheel.wheels import CascadingWheel, HierarchicalWheel, SingleWheel

SECOND = 1_000_000_000
Make = Callable[[float], Any]


def payloads(expired: list[Any]) -> list[Any]:
    return [entry.payload for entry in expired]


def test_russellluo_fires_891_ms_early(make: Make) -> None:
    """
    With a tick of 1 s, a delay of 1.5 s does not end early, at whichever millisecond of a tick it begins.
    """
    for start_ms in range(0, 1_000, 13):
        wheel = make(1)
        start = 7 * SECOND + start_ms * 1_000_000
        wheel.advance(start)
        deadline = start + 1_500_000_000
        wheel.insert(deadline, "tea")
        assert wheel.advance(deadline - 1) == []
        assert payloads(wheel.advance(wheel.abilities.due_at(deadline))) == ["tea"]


def test_russellluo_deadlocks_on_reinsert() -> None:
    """
    If an entry of a coarse slot is put into the same slot again, there is no endless loop (#53).
    """
    for slots in range(2, 9):
        wheel = HierarchicalWheel(tick=1, slots=slots)
        deadlines = [tick * SECOND for tick in range(1, slots**3 + 1)]
        for deadline in deadlines:
            wheel.insert(deadline, deadline)
        assert payloads(wheel.advance(slots**3 * SECOND)) == deadlines


def test_russellluo_second_stop_panics(make: Make) -> None:
    """
    A wheel may be drained twice, and timers that are set afterwards fire.
    """
    wheel = make(1)
    wheel.insert(SECOND, "drained")
    assert payloads(wheel.drain()) == ["drained"]
    assert wheel.drain() == []
    wheel.insert(2 * SECOND, "kept")
    assert payloads(wheel.advance(3 * SECOND)) == ["kept"]


def test_go_zero_moves_by_slot_number(make: Make) -> None:
    """
    If a timer is set and moved at any position of the pointer, it fires once, at its new deadline.
    """
    combinations = 0
    for elapsed, first, waited in product(range(5), range(1, 16), range(5)):
        for moved in range(1, 16) if waited < first else ():
            wheel = make(1)
            wheel.advance(elapsed * SECOND)
            entry = wheel.insert((elapsed + first) * SECOND, "moved")
            assert wheel.advance((elapsed + waited) * SECOND) == []
            assert wheel.reschedule(entry, (elapsed + waited + moved) * SECOND)
            fired = [tick for tick in range(40) if wheel.advance(tick * SECOND)]
            assert fired == [elapsed + waited + moved]
            combinations += 1
    assert combinations == 4_875


def test_go_zero_short_move_fires_twice(make: Make) -> None:
    """
    A timer that is moved by less than a tick fires once.
    """
    wheel = make(1)
    entry = wheel.insert(3 * SECOND, "moved")
    for moved in (1, SECOND // 2, SECOND - 1, 0):
        assert wheel.reschedule(entry, moved)
        assert len(wheel) == 1
    assert payloads(wheel.advance(0)) == ["moved"]
    assert wheel.advance(20 * SECOND) == []


def test_go_zero_loses_what_is_set_after_drain(make: Make) -> None:
    """
    Timers that are set after a drain fire, even in the slots that were just drained.
    """
    wheel = make(1)
    for tick in range(1, 10):
        wheel.insert(tick * SECOND, "drained")
    wheel.advance(2 * SECOND)
    wheel.drain()
    for tick in range(3, 10):
        wheel.insert(tick * SECOND, tick)
    assert payloads(wheel.advance(10 * SECOND)) == list(range(3, 10))


@pytest.mark.parametrize("delay", [2**32 - 257, 2**32 - 256, 2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**33])
@pytest.mark.parametrize("start", [0, 1, 255, 256, 2**26, 2**32 - 1, 2**32])
def test_skynet_takes_a_delay_near_the_counter_for_a_near_one(start: int, delay: int) -> None:
    """
    A delay that is nearly as long as the range of the counter does not count as a short delay.
    """
    wheel = CascadingWheel(tick=1e-9)
    wheel.advance(start)
    wheel.insert(start + delay, "far")
    assert wheel.advance(start + 300) == []
    assert wheel.next_expiration() == start + delay
    assert wheel.advance(start + delay - 1) == []
    assert payloads(wheel.advance(start + delay)) == ["far"]


def test_skynet_counter_wraps_in_use() -> None:
    """
    Timers that were set before the counter wraps around fire at the right ticks before and after the wrap.
    """
    wheel = CascadingWheel(tick=1e-9)
    start = 2**32 - 300
    wheel.advance(start)
    for delay in range(1, 600):
        wheel.insert(start + delay, start + delay)
    for now in range(start + 1, start + 600):
        assert payloads(wheel.advance(now)) == [now]


def test_skynet_wakes_up_when_idle(make: Make) -> None:
    """
    An empty wheel needs no wake-up, and a wheel with one far deadline needs exactly one.
    """
    wheel = make(0.01)
    assert wheel.next_expiration() is None
    wheel.insert(300_000_000, "far")
    assert wheel.next_expiration() == 300_000_000
    assert payloads(wheel.advance(300_000_000)) == ["far"]
    assert wheel.next_expiration() is None


def test_skynet_clock_stepped_back(make: Make) -> None:
    """
    If the clock steps back, no timer fires early, and all timers fire on time.
    """
    wheel = make(1)
    wheel.advance(20 * SECOND)
    wheel.insert(22 * SECOND, "tea")
    assert wheel.advance(5 * SECOND) == []
    assert wheel.advance(21 * SECOND) == []
    assert payloads(wheel.advance(22 * SECOND)) == ["tea"]


def test_article_inserts_before_deciding() -> None:
    """
    A delay longer than the span is refused, and leaves no entry that could fire early.
    """
    wheel = SingleWheel(tick=1, slots=8)
    with pytest.raises(SpanExceededError):
        wheel.insert(100 * SECOND, "long")
    assert len(wheel) == wheel.stats()["sets"] == 0
    assert wheel.advance(100 * SECOND) == []


def test_article_takes_long_delays_modulo_the_ring(make_ticked: Make) -> None:
    """
    A delay of many turns of the ring ends only after all these turns.
    """
    wheel = make_ticked(1)
    for turns in (1, 2, 3, 100, 10_000):
        wheel.insert((turns * 5 + 3) * SECOND, turns)
    for turns in (1, 2, 3, 100, 10_000):
        assert wheel.advance((turns * 5 + 3) * SECOND - 1) == []
        assert payloads(wheel.advance((turns * 5 + 3) * SECOND)) == [turns]


def test_circle_wheels_divide_by_zero_below_a_second(make: Make) -> None:
    """
    Ticks and delays below one second work like longer ones.
    """
    for tick in (0.5, 0.1, 0.001, 1e-6, 1e-9):
        wheel = make(tick)
        deadline = to_deadline(tick)
        wheel.insert(deadline, "tea")
        assert wheel.advance(deadline - 1) == []
        assert payloads(wheel.advance(deadline)) == ["tea"]


def test_circle_wheels_lose_a_tick_to_floats(make_ticked: Make) -> None:
    """
    A delay that is a multiple of a tenth of a second never ends a tick early.
    """
    for number in range(1, 400):
        wheel = make_ticked(0.1)
        deadline = to_deadline(number * 0.1)
        wheel.insert(deadline, "tea")
        due_at = wheel.next_expiration()
        assert due_at / 1e9 >= number * 0.1
        assert due_at - deadline < 100_000_000
        assert wheel.advance(due_at - 1) == []
        assert payloads(wheel.advance(due_at)) == ["tea"]
