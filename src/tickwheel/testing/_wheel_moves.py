"""
The operations of a random run, with deadlines at the instants where wheels have failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tickwheel.testing.instants import INSTANTS
from tickwheel.wheels.contract import NEVER

if TYPE_CHECKING:
    import random

    from tickwheel.testing._wheel_model import WheelModel

__all__ = ["NO_LIMIT", "Operation", "Operations", "draw_start"]

Operation: TypeAlias = tuple[str, int, int]
"""
An operation: its name and two numbers. If a number is not used, its place has a "-".

The operations are insert (label, deadline), cancel (label, -), move (label, deadline), look (label, -), advance (now,
limit), and next, drain and len (-, -). A label names an entry. A label below zero is an id that no insert returned.
"""

NO_LIMIT = -1
POPULATION_MAX = 200


def draw_start(rng: random.Random) -> int:
    kind = rng.randrange(4)
    if kind == 0:
        return 0
    if kind == 1:
        return rng.getrandbits(rng.randrange(1, 63))
    return max(0, rng.choice(INSTANTS) - rng.getrandbits(rng.randrange(1, 20)))


class Operations:
    """
    An endless iterator of operations that keeps some hundred entries pending. The same seed gives the same operations.
    """

    def __init__(self, rng: random.Random, model: WheelModel, start: int) -> None:
        self._rng = rng
        self._model = model
        self._now = start
        self._labels: list[int] = []
        self._recent = [start] * 16
        self._inserted = 0
        tick_ns = model.abilities.tick_ns or 1
        self._unit = rng.choice((tick_ns, tick_ns, tick_ns, 1_000, 2**20))
        # A source is drawn in proportion to the number of times that it is listed here.
        self._deadlines = (
            *[self._present, self._past, self._anything, self._instant, self._end_of_time],
            *[self._within_a_tick, self._within_a_level, self._equal_to_another] * 2,
            *[self._edge] * 3,
        )
        self._nows = (
            *[self._due] * 54,
            *[self._within_a_tick] * 20,
            *[self._within_a_level] * 12,
            *[self._edge] * 8,
            *[self._past] * 5,
            self._jump,
        )

    def draw(self) -> Operation:
        chance = self._rng.random()
        if chance < 0.35:
            return self._insert() if len(self._model.pending) < POPULATION_MAX else ("cancel", self._oldest(), 0)
        if chance < 0.50:
            return "cancel", self._label(), 0
        if chance < 0.70:
            return "move", self._label(), self._deadline()
        if chance < 0.90:
            return self._advance()
        if chance < 0.97:
            return "next", 0, 0
        return ("look", self._label(), 0) if chance < 0.998 else ("drain", 0, 0)

    def _insert(self) -> Operation:
        label = self._inserted
        self._inserted += 1
        self._labels.append(label)
        return "insert", label, self._deadline()

    def _oldest(self) -> int:
        return next(iter(self._model.pending.values())).payload

    def _label(self) -> int:
        # Draw mostly one of the last few hundred labels, a third of which are stale, and sometimes an id that never
        # existed.
        if not self._labels or self._rng.random() < 0.01:
            return -1 - self._rng.getrandbits(65)
        if len(self._labels) > 2 * POPULATION_MAX:
            del self._labels[:POPULATION_MAX]
        return self._labels[int(self._rng.random() * len(self._labels))]

    def _deadline(self) -> int:
        deadline = min(max(self._rng.choice(self._deadlines)(), 0), NEVER)
        span_ns = self._model.abilities.span_ns
        if span_ns is not None and deadline - self._model.latest > span_ns and self._rng.random() < 0.95:
            # A deadline beyond the span is rare, because such an insert is only refused.
            deadline = min(self._model.latest + self._rng.randrange(span_ns + 1), NEVER)
        self._recent[int(self._rng.random() * len(self._recent))] = deadline
        return deadline

    def _anything(self) -> int:
        return self._now + self._rng.getrandbits(self._rng.randrange(1, 63))

    def _past(self) -> int:
        return self._now - self._rng.getrandbits(self._rng.randrange(1, 40))

    def _within_a_tick(self) -> int:
        return self._now + int(self._rng.random() * self._unit)

    def _within_a_level(self) -> int:
        return self._now + int(self._rng.random() * 64 * self._unit)

    def _equal_to_another(self) -> int:
        return self._rng.choice(self._recent)

    def _instant(self) -> int:
        return self._rng.choice(INSTANTS)

    def _end_of_time(self) -> int:
        return NEVER - self._rng.randrange(3)

    def _present(self) -> int:
        return self._now

    def _edge(self) -> int:
        # Return the end of a slot or level after now, or a nanosecond before or after that end.
        rng = self._rng
        size = self._unit << (6 * rng.randrange(5) if rng.random() < 0.5 else 8 * rng.randrange(4))
        return (self._now // size + rng.randrange(1, 5)) * size + rng.randrange(-1, 2)

    def _advance(self) -> Operation:
        self._now = min(max(self._rng.choice(self._nows)(), 0), NEVER)
        chance = self._rng.random()
        if chance < 0.6:
            return "advance", self._now, NO_LIMIT
        return "advance", self._now, int(chance * 100) % 5

    def _due(self) -> int:
        # Return the next expiry, or a nanosecond before it. A time far ahead is rare, because time does not go back.
        rng, now = self._rng, self._now
        due_at = self._model.next_expiration()
        if due_at is None or (due_at - now > 2**50 and rng.random() < 0.98):
            return now
        return max(due_at - (rng.random() < 0.2), now)

    def _jump(self) -> int:
        return self._now + self._rng.getrandbits(self._rng.randrange(1, 60))
