"""
The cost of many pending timers that are not due soon.

Pending timers have a cost in a design that scans all timers, takes O(log n) steps for each operation, or is called at
every tick. The measurements show how high this cost is in each design.

    beat     one short timer after the other is set and fires, while the many timers are pending
    quiet    no timer is set or due; a design with ticks is called at every tick, and any other design is not called
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import thread_time_ns
from typing import Final

from tickwheel.wheels import Wheel

__all__ = ["beat_ns", "filled", "quiet_ns"]

HOUR_NS: Final = 3_600_000_000_000
MS_NS: Final = 1_000_000
BLOCK: Final = 10
"""Number of timers (or of ticks) that are timed together as a block. The result is the median block."""
BLOCKS: Final = range(3, 50)
ENOUGH_NS: Final = 200_000_000
"""Total time of the timed blocks, in nanoseconds, after which no further block is timed."""


def filled(wheel: Wheel, pending: int) -> int:
    """
    Fill a new *wheel* whose time is 0, and return the nanoseconds until its first timer is due.

    The timers are due in the second hour, or, if the design's span is shorter, in the second half of the span.
    """
    span_ns = wheel.abilities.span_ns
    first_ns = HOUR_NS if span_ns is None else span_ns // 2
    for number in range(pending):
        wheel.insert(first_ns + first_ns * 9 // 10 * number // pending, None)
    return first_ns


def beat_ns(wheel: Wheel, now: int) -> tuple[float, int]:
    period_ns = max(MS_NS, wheel.abilities.tick_ns)
    wheel.advance(now)

    def beat() -> None:
        nonlocal now
        wheel.insert(now + period_ns, None)
        due_at = wheel.next_expiration()
        assert due_at is not None, "what was just set is pending"
        now = due_at
        expired = wheel.advance(now)
        assert len(expired) == 1, "a beat is one timer"

    return _middle(beat), now


def quiet_ns(wheel: Wheel, now: int) -> float:
    tick_ns = wheel.abilities.tick_ns

    def tick() -> None:
        nonlocal now
        now += tick_ns
        expired = wheel.advance(now)
        assert not expired, "a quiet tick has nothing due"

    return _middle(tick) if tick_ns else 0.0


def _middle(work: Callable[[], None]) -> float:
    blocks: list[int] = []
    while len(blocks) < BLOCKS.start or (sum(blocks) < ENOUGH_NS and len(blocks) < BLOCKS.stop):
        began = thread_time_ns()
        for _ in range(BLOCK):
            work()
        blocks.append(thread_time_ns() - began)
    return median(blocks) / BLOCK
