"""
The options of designs, and the arithmetic of slots.
"""

import doctest
import importlib
import math
from typing import Any

import pytest

from tickwheel.errors import InvalidDelayError
from tickwheel.wheels import HeapWheel
from tickwheel.wheels._ring import Ring
from tickwheel.wheels.calendar_queue import CalendarWheel
from tickwheel.wheels.cascading import BITS, LATER, SHIFTS, CascadingWheel, _index_for, _level_for
from tickwheel.wheels.entry import Entry
from tickwheel.wheels.hierarchical import HierarchicalWheel
from tickwheel.wheels.rounds import RoundsWheel
from tickwheel.wheels.single import SingleWheel

TICKED = [SingleWheel, RoundsWheel, HierarchicalWheel, CascadingWheel]
RINGS = [SingleWheel, RoundsWheel, HierarchicalWheel]


@pytest.mark.parametrize("design", TICKED)
@pytest.mark.parametrize("tick", [0, 0.0, -1, -1e-9, math.inf, -math.inf, 1e300, 10**400])
def test_ticks_that_are_refused(design: Any, tick: float) -> None:
    """
    If a tick is zero, negative, infinite or far too large, a ValueError is raised that names the tick.
    """
    with pytest.raises(ValueError, match="tick is ") as refusal:
        design(tick=tick)
    assert repr(tick) in str(refusal.value)


@pytest.mark.parametrize("design", TICKED)
def test_ticks_that_are_not_numbers(design: Any) -> None:
    """
    A tick of NaN raises an InvalidDelayError, and a tick that is not a number raises a TypeError.
    """
    with pytest.raises(InvalidDelayError):
        design(tick=math.nan)
    with pytest.raises(TypeError):
        design(tick="1")
    with pytest.raises(TypeError):
        design(tick=None)


@pytest.mark.parametrize("design", RINGS)
def test_slots_that_are_refused(design: Any) -> None:
    """
    Fewer than two slots, or a number of slots that is not an integer, raises an error that names `slots`.
    """
    for slots in (1, 0, -1):
        with pytest.raises(ValueError, match=f"slots is {slots}: pass an integer, 2 or more"):
            design(tick=1, slots=slots)
    for slots in (None, 2.0, "8", True):
        with pytest.raises(TypeError, match="slots is "):
            design(tick=1, slots=slots)


@pytest.mark.parametrize("design", TICKED)
def test_a_tick_is_converted_once(design: Any) -> None:
    """
    A tick in seconds is stored in whole nanoseconds, rounded up.
    """
    assert design(tick=0.1).abilities.tick_ns == 100_000_000
    assert design(tick=1e-9).abilities.tick_ns == 1
    assert design(tick=1e-12).abilities.tick_ns == 1
    assert design(tick=2).abilities.tick_ns == 2_000_000_000


def test_only_single_has_a_span() -> None:
    """
    The single ring accepts delays up to one tick less than its size. The other designs accept any delay.
    """
    assert SingleWheel(tick=0.5, slots=8).abilities.span_ns == 3_500_000_000
    assert SingleWheel(tick=1e9, slots=10**4).abilities.span_ns == 2**63 - 1
    assert {design(tick=1).abilities.span_ns for design in (RoundsWheel, HierarchicalWheel, CascadingWheel)} == {None}


def test_start_of_the_hierarchical_wheel() -> None:
    """
    If `start` is given, the wheel's time begins at `start` and not at zero.
    """
    start = 10**9
    wheel = HierarchicalWheel(tick=1, slots=20, start=start)
    wheel.insert((start + 15) * 10**9, None)
    assert wheel.levels == 1
    with pytest.raises(InvalidDelayError):
        HierarchicalWheel(start=math.nan)


def test_wheels_are_made_on_demand() -> None:
    """
    Each level multiplies the longest delay by the number of slots, and is made when a delay first needs it.
    """
    wheel = HierarchicalWheel(tick=1e-9, slots=10)
    for delay, levels in [(9, 1), (10, 2), (99, 2), (100, 3), (999, 3), (1_000, 4)]:
        wheel.insert(delay, None)
        assert wheel.levels == levels


@pytest.mark.parametrize(
    ("tick", "pointer", "level"),
    [
        (1, 0, 0),
        (255, 0, 0),
        (256, 0, 1),
        (256, 255, 1),
        (2**14 - 1, 0, 1),
        (2**14, 0, 2),
        (2**20 - 1, 0, 2),
        (2**20, 2**20 - 1, 3),
        (2**26, 0, 4),
        (2**32 - 1, 0, 4),
        (2**32, 0, LATER),
        (2**32, 2**32 - 1, LATER),
        (2**32 + 1, 2**32, 0),
        (3 * 2**32 + 300, 3 * 2**32, 1),
    ],
)
def test_level_for(tick: int, pointer: int, level: int) -> None:
    """
    An entry is put into the finest ring that can hold it: its tick equals the wheel's counter in all higher bits.
    """
    assert _level_for(tick, pointer) == level


def test_index_for() -> None:
    """
    Each ring uses a group of adjacent bits of a tick as the slot number.
    """
    tick = 0b110001_000011_100000_011111_10101010
    indexes = [_index_for(tick, level) for level in range(LATER)]
    assert indexes == [0b10101010, 0b011111, 0b100000, 0b000011, 0b110001]
    assert sum(BITS) == 32
    assert sum(index << shift for index, shift in zip(indexes, SHIFTS, strict=True)) == tick


@pytest.mark.parametrize("size", [2, 3, 64, 100])
def test_a_ring_finds_its_occupied_slots(size: int) -> None:
    """
    The search for occupied slots yields them in the order of the pointer. The slot where it starts comes last.
    """
    ring = Ring(size)
    occupied = {index for index in range(size) if index % 7 in {0, 3} or index == size - 1}
    for index in occupied:
        ring.add(Entry(index + 1, 0, None), index)
    for index in range(size):
        passed = [distance for distance in range(1, size + 1) if (index + distance) % size in occupied]
        assert list(ring.occupied_after(index)) == passed


@pytest.mark.parametrize(
    "name", ["native", "heap", "single", "rounds", "hierarchical", "cascading", "calendar_queue", "delay_queue"]
)
def test_worked_examples(name: str) -> None:
    """
    The example in the docstring of each design runs.
    """
    results = doctest.testmod(importlib.import_module(f"tickwheel.wheels.{name}"))
    assert results.attempted >= 4
    assert results.failed == 0


@pytest.mark.parametrize(
    "make", [HeapWheel, CalendarWheel, *(lambda design=design: design(tick=1e-9) for design in TICKED)]
)
def test_views_show_every_entry(make: Any) -> None:
    """
    The view of a wheel's rings counts every entry once, in an existing slot.
    """
    wheel = make()
    wheel.advance(1_000)
    for number in range(1, 200):
        wheel.insert(1_000 + number * 13 % 3_000, None)
    wheel.advance(1_100, 3)
    views = wheel.rings()
    assert sum(sum(view.counts.values()) for view in views) == len(wheel) == 196
    for view in views:
        assert all(0 <= index < view.slots for index in view.counts)
        assert view.pointer is None or 0 <= view.pointer < view.slots
