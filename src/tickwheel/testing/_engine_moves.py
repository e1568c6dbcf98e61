from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Operation", "Program", "draw_program"]

Operation: TypeAlias = tuple[Any, ...]
"""
An operation: its name and its arguments.

A delay is in nanoseconds from now. *back* chooses a timer; it counts back from the last timer. The operations are set
(delay, slack, operations of the callback), cancel (back), move (back, delay), look (back), turn (limit), pass (delay),
drain () and close (). Callbacks may also contain again (delay), nest (), fail () and leave ().
"""

START_MAX = 2**49
"""Upper bound of start times, in nanoseconds. Below it, a float of seconds is exact to the nanosecond."""


@dataclass(frozen=True, slots=True)
class Program:
    start: int
    max_pending: int | None
    operations: tuple[Operation, ...]


def draw_program(rng: random.Random, size: int) -> Program:
    start = rng.choice((0, rng.getrandbits(rng.randrange(1, 50)), START_MAX - rng.getrandbits(20)))
    max_pending = rng.choice((None, None, None, 3, 10, 40))
    unit = rng.choice((1, 10, 1_000, 2**20))
    drawer = _Drawer(rng, unit)
    return Program(start, max_pending, tuple(drawer.draw() for _ in range(size)))


class _Drawer:
    """
    Draws random operations. Their times are multiples of one unit, so that many operations coincide.
    """

    def __init__(self, rng: random.Random, unit: int) -> None:
        self._rng = rng
        self._unit = unit

    def draw(self) -> Operation:
        chance = self._rng.random()
        if chance < 0.40:
            return self._set(depth=0)
        if chance < 0.60:
            return "turn", self._rng.choice((None, None, None, 0, 1, 2, 3, 7))
        if chance < 0.75:
            return "pass", self._rng.choice((0, 1, 1, 2, 3, 10, 100)) * self._unit
        if chance < 0.998:
            return self._plain()
        return self._rng.choice((("drain",), ("drain",), ("close",)))

    def _set(self, depth: int) -> Operation:
        slack = self._rng.choice((0, 0, 0, 0, 3, 64)) * self._unit
        script = () if depth > 2 or self._rng.random() < 0.4 else self._script(depth)
        return "set", self._delay(), slack, script

    def _script(self, depth: int) -> tuple[Operation, ...]:
        script = tuple(self._inside(depth) for _ in range(self._rng.randrange(1, 4)))
        ending = self._rng.random()
        return (*script, ("fail",)) if ending < 0.15 else (*script, ("leave",)) if ending < 0.25 else script

    def _inside(self, depth: int) -> Operation:
        chance = self._rng.random()
        if chance < 0.25:
            return self._set(depth + 1)
        if chance < 0.40:
            return "again", self._delay() if self._rng.random() < 0.5 else 10**12
        if chance < 0.45:
            return ("nest",)
        if chance < 0.97:
            return self._plain()
        return ("drain",) if chance < 0.995 else ("close",)

    def _plain(self) -> Operation:
        back = int(self._rng.expovariate(0.2))
        chance = self._rng.random()
        if chance < 0.4:
            return "move", back, self._delay()
        if chance < 0.75:
            return "cancel", back
        return "look", back

    def _delay(self) -> int:
        rng = self._rng
        near = rng.choice((0, 0, 0, 1, 1, 2, 3, 5, 63, 64, 65, 100)) * self._unit
        kind = rng.random()
        if kind < 0.80:
            return near
        if kind < 0.90:
            return -near
        if kind < 0.98:
            return rng.getrandbits(rng.randrange(1, 45))
        return 2**63
