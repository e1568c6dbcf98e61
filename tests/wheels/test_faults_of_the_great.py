"""
Known faults of other timer systems, which the wheels of tickwheel must not have.
"""

import gc
import sys
from collections.abc import Callable
from queue import Empty
from types import FrameType
from typing import Any

import pytest

from tickwheel.clock import NEVER
from tickwheel.errors import InvalidDeadlineError, SpanExceededError
from tickwheel.testing import ManualClock
from tickwheel.testing.instants import level_edges
from tickwheel.wheels import (
    CascadingWheel,
    DelayQueue,
    HeapWheel,
    HierarchicalWheel,
    NativeWheel,
    RoundsWheel,
    SingleWheel,
)

SECOND = 1_000_000_000
Make = Callable[[float], Any]


def payloads(expired: list[Any]) -> list[Any]:
    return [entry.payload for entry in expired]


def lines_run(call: Callable[[], object]) -> int:
    """
    Return the number of lines of Python that *call* runs.
    """
    count = 0

    def trace(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before, is_collecting = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        if is_collecting:
            gc.enable()
    return count


def test_the_collector_is_not_counted() -> None:
    """
    The lines of Python that a garbage collection runs during a call do not count as work of the call.
    """

    def called(*_: object) -> None:
        collected.append(None)

    def allocate() -> list[list[int]]:
        return [[number] for number in range(2_000)]

    collected: list[None] = []
    plain = lines_run(allocate)
    gc.callbacks.append(called)
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(10)
        assert lines_run(allocate) == plain
        assert allocate()
        assert collected
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(called)


@pytest.mark.parametrize("design", [NativeWheel, HeapWheel, RoundsWheel, HierarchicalWheel, CascadingWheel])
def test_tokio_hangs_after_12_days(design: Any) -> None:
    """
    If a deadline is one whole turn of a level ahead, the entry is neither lost nor delivered early (tokio #8334).
    """
    for turn in level_edges():
        for start in (0, turn - 1, turn, turn + 1, 3 * turn // 2):
            wheel = design()
            tick = wheel.abilities.tick_ns
            instants = [start + turn - 1, start + turn, start + turn + 1]
            if instants[-1] + tick >= NEVER:
                continue
            wheel.advance(start)
            for deadline in instants:
                wheel.insert(deadline, deadline)
            wheel.check()
            due = [wheel.abilities.due_at(deadline) for deadline in instants]
            for now in due:
                assert all(wheel.abilities.due_at(deadline) == now for deadline in payloads(wheel.advance(now)))
                wheel.check()
            assert len(wheel) == 0


def test_delays_about_the_span() -> None:
    """
    Delays up to the span are accepted and end on time. Longer delays are refused, and the message has the span.
    """
    for start in (0, 1, SECOND - 1, SECOND, 5 * SECOND + 7):
        wheel = SingleWheel(tick=1, slots=8)
        wheel.advance(start)
        for delay in (7 * SECOND - 1, 7 * SECOND):
            wheel.insert(start + delay, delay)
        for delay in (7 * SECOND + 1, 8 * SECOND, 14 * SECOND, 16 * SECOND, NEVER - 1 - start):
            with pytest.raises(SpanExceededError, match="span of 7000000000 ns"):
                wheel.insert(start + delay, delay)
        assert wheel.advance(start + 7 * SECOND - 2) == []
        assert payloads(wheel.advance(start + 8 * SECOND)) == [7 * SECOND - 1, 7 * SECOND]


def test_delays_about_a_turn(make_ticked: Make) -> None:
    """
    Delays of whole turns of a ring, plus or minus a nanosecond, end on time.
    """
    wheel = make_ticked(1)
    wheel.advance(3 * SECOND)
    turns = [5, 10, 25, 125, 256, 2**14, 2**20]
    deadlines = [(3 + turn) * SECOND + beside for turn in turns for beside in (-1, 0, 1)]
    for deadline in [*deadlines, NEVER - 1]:
        wheel.insert(deadline, deadline)
    delivered = []
    while (now := wheel.next_expiration()) is not None:
        assert wheel.advance(now - 1) == []
        batch = payloads(wheel.advance(now))
        assert {wheel.abilities.due_at(deadline) for deadline in batch} == {now}
        delivered += batch
    assert delivered == [*deadlines, NEVER - 1]


def test_cascade_into_the_tick_that_expires(make_ticked: Make) -> None:
    """
    If an entry cascades into the current tick, it expires in this tick, before entries that were inserted later.
    """
    for edge in (5, 25, 125, 256, 256 * 64):
        wheel = make_ticked(1)
        wheel.insert(edge * SECOND, "from afar")
        wheel.advance((edge - 1) * SECOND)
        wheel.insert(edge * SECOND, "from near")
        wheel.insert(edge * SECOND + 1, "the tick after")
        assert payloads(wheel.advance(edge * SECOND)) == ["from afar", "from near"]
        assert payloads(wheel.advance((edge + 1) * SECOND)) == ["the tick after"]


def test_base_is_now_and_not_the_last_tick(make: Make) -> None:
    """
    A wheel that was empty for a year counts delays from now.
    """
    wheel = make(1)
    year = 365 * 86_400 * SECOND
    wheel.advance(year)
    wheel.insert(year + 2 * SECOND, "tea")
    assert wheel.next_expiration() == year + 2 * SECOND
    assert wheel.advance(year + 2 * SECOND - 1) == []
    assert payloads(wheel.advance(year + 2 * SECOND)) == ["tea"]


def test_an_early_wake_up_arms_again(make: Make) -> None:
    """
    If a wheel is polled too early, it delivers nothing.
    """
    wheel = make(1)
    wheel.insert(9 * SECOND, "tea")
    for early in (0, 1, SECOND, 5 * SECOND + 3, 9 * SECOND - 1):
        assert wheel.advance(early) == []
        assert wheel.next_expiration() == 9 * SECOND


def test_a_wake_up_before_parking_is_not_lost() -> None:
    """
    If an item is offered just before a thread in `take` sleeps, the thread takes it (tokio #6682, RussellLuo #5).
    """

    class OfferingClock(ManualClock):
        is_armed = False

        def monotonic_ns(self) -> int:
            if self.is_armed:
                self.is_armed = False
                queue.offer("just in time", 0)
            return super().monotonic_ns()

    clock = OfferingClock()
    queue: DelayQueue[str] = DelayQueue(clock)
    with pytest.raises(Empty):
        queue.poll()
    clock.is_armed = True
    assert queue.take(3_600) == "just in time"


@pytest.mark.parametrize("gone", [(0,), (4,), (9,), (0, 9), tuple(range(1, 9)), tuple(range(10))])
def test_cancelled_siblings_of_a_due_batch(make: Make, gone: tuple[int, ...]) -> None:
    """
    A due entry that was not delivered yet can be cancelled, whether it is the first, a middle or the last entry.
    """
    wheel = make(1)
    ids = [wheel.insert(2 * SECOND, number) for number in range(11)]
    assert payloads(wheel.advance(2 * SECOND, 1)) == [0]
    assert not wheel.cancel(ids[0])
    assert all(wheel.cancel(ids[number + 1]) for number in gone)
    wheel.check()
    assert payloads(wheel.advance(2 * SECOND)) == [number for number in range(1, 11) if number - 1 not in gone]


def test_stale_handles_have_no_effect(make: Make) -> None:
    """
    The id of an entry that no longer exists has no effect on a new entry that uses the same storage.
    """
    wheel = make(1)
    stale = wheel.insert(SECOND, "old")
    wheel.cancel(stale)
    for _ in range(100):
        fresh = wheel.insert(SECOND, "new")
        assert not wheel.cancel(stale)
        assert not wheel.reschedule(stale, 2 * SECOND)
        assert wheel.cancel(fresh)
        stale = fresh


def test_netty_counts_a_cancel_twice(make: Make) -> None:
    """
    However an entry ends, the pending count falls by one (netty #14959).
    """
    wheel = make(1)
    ids = [wheel.insert(tick * SECOND, tick) for tick in (1, 2, 2, 3)]
    for refused in (-1, 2**63):
        with pytest.raises(InvalidDeadlineError):
            wheel.insert(refused, "refused")
    wheel.cancel(ids[1])
    wheel.cancel(ids[1])
    wheel.advance(2 * SECOND)
    wheel.cancel(ids[2])
    assert wheel.stats()["pending"] == len(wheel) == 1
    wheel.drain()
    wheel.cancel(ids[3])
    assert wheel.stats()["pending"] == len(wheel) == 0


def test_caffeine_unlinks_the_rest_when_a_callback_raises(make: Make) -> None:
    """
    If a delivery stops in the middle of a slot, the next delivery has the remaining entries of the slot, in order.
    """
    wheel = make(1)
    for number in range(6):
        wheel.insert(2 * SECOND, number)
    (first,) = wheel.advance(2 * SECOND, 1)
    assert first.payload == 0
    wheel.check()
    assert payloads(wheel.advance(2 * SECOND)) == [1, 2, 3, 4, 5]


def test_wahern_delivers_66_before_62(make: Make) -> None:
    """
    If a wheel is polled less often than its tick, it delivers the entries of all levels in order of deadlines.
    """
    wheel = make(0.001)
    unit = 1_000_000
    wheel.advance(40 * unit)
    deadlines = [66, 62, 64, 65, 63, 70, 41]
    for deadline in deadlines:
        wheel.insert(deadline * unit, deadline)
    assert payloads(wheel.advance(79 * unit)) == sorted(deadlines)


def test_agrona_delivers_one_tick_a_poll(make: Make) -> None:
    """
    One poll delivers the entries of every tick that has passed.
    """
    wheel = make(1)
    for tick in range(1, 31):
        wheel.insert(tick * SECOND, tick)
    assert payloads(wheel.advance(30 * SECOND)) == list(range(1, 31))


def test_nexus_polls_the_whole_population(make_python: Make) -> None:
    """
    A poll with nothing due runs as many lines of Python with 50,000 pending entries as with 50 (nexus #667).
    """
    costs = []
    for population in (50, 50_000):
        wheel = make_python(1)
        for number in range(population):
            wheel.insert(20 * SECOND + number % 1_000, None)
        wheel.advance(0)
        wheel.next_expiration()
        costs.append(lines_run(lambda wheel=wheel: [wheel.advance(now) for now in range(1, 20)]))
        assert wheel.stats()["cascades"] == 0
    assert costs[0] == costs[1]


def test_the_cost_of_a_crowded_slot_is_spread_over_deliveries(make_python: Make) -> None:
    """
    Once a slot of 20,000 entries is sorted, the cost of a delivery depends only on the number of delivered entries.
    """
    wheel = make_python(1)
    for number in range(20_000):
        wheel.insert(2 * SECOND - number % 7, number)
    wheel.advance(2 * SECOND, 10)
    costs = [lines_run(lambda: wheel.advance(2 * SECOND, 10)) for _ in range(100)]
    assert max(costs) < 10 * 200
    assert len(wheel) == 20_000 - 1_010
