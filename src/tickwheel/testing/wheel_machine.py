"""
Runs random operations on a wheel and a simple model, and compares the two after each step.

    report = run_machine(make_wheel, seed=7, operations=100_000)

A run consists of episodes. In each, a new wheel starts at a critical instant, chosen at random (see `instants`). The
first difference, or the first broken invariant, ends the run with a `DivergenceError`. Its text has the seed, and the
shortest list of operations that still fails; `replay(make_wheel, case)` runs such a list.

The design follows Caffeine's `TimerWheelFuzzer`; the shrinking follows A. Zeller, "Simplifying and Isolating
Failure-Inducing Input", 2002.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tickwheel.errors import SpanExceededError
from tickwheel.testing._wheel_model import WheelModel
from tickwheel.testing._wheel_moves import NO_LIMIT, Operation, Operations, draw_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tickwheel.wheels.contract import Wheel

__all__ = ["Case", "DivergenceError", "MachineReport", "MakeWheel", "replay", "run_machine"]

MakeWheel: TypeAlias = "Callable[[int], Wheel]"

EPISODE = 2_000
"""Number of operations on each wheel. It is high enough to fill the wheel several times."""


@dataclass(frozen=True, slots=True)
class Case:
    """
    Operations on a wheel that was made at *start*.
    """

    start: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class MachineReport:
    """
    Result of a run without a divergence. The *seed* repeats the run.

    *episodes* is the number of wheels, *kinds* the number of operations of each kind, and *expired* the number of
    expired entries.
    """

    seed: int
    operations: int
    episodes: int
    kinds: Counter[str] = field(default_factory=Counter)
    expired: int = 0


class DivergenceError(AssertionError):
    """
    A wheel differed from the model, or broke an invariant.
    """

    def __init__(self, seed: int, episode: int, case: Case, complaint: str) -> None:
        self.seed = seed
        self.episode = episode
        self.case = case
        self.complaint = complaint
        steps = "\n".join(f"    {operation!r}," for operation in case.operations)
        super().__init__(
            f"seed {seed}, episode {episode}: {complaint}\n"
            f"shrunk to {len(case.operations)} operations: Case(start={case.start}, operations=(\n{steps}\n))"
        )


class _MismatchError(AssertionError):
    pass


class _Run:
    def __init__(self, make_wheel: MakeWheel, start: int) -> None:
        self.wheel = make_wheel(start)
        self.model = WheelModel(self.wheel.abilities)
        self.model.latest = start
        self._ids: dict[int, int] = {}
        self._given: set[int] = set()
        self._steps: dict[str, Callable[[int, int], tuple[Any, Any]]] = {
            "insert": self._insert,
            "cancel": self._cancel,
            "move": self._move,
            "look": self._look,
            "advance": self._advance,
            "next": self._next,
            "drain": self._drain,
        }

    def step(self, operation: Operation) -> None:
        name, first, second = operation
        expected, got = self._steps[name](first, second)
        if expected != got:
            message = f"{operation!r} gave {got!r}, not {expected!r}"
            raise _MismatchError(message)
        if len(self.wheel) != len(self.model.pending):
            message = f"after {operation!r} the length is {len(self.wheel)}, not {len(self.model.pending)}"
            raise _MismatchError(message)

    def check(self) -> None:
        self.wheel.check()
        stats = self.wheel.stats()
        expected = {"pending": len(self.model.pending), **self.model.counts}
        got = {name: stats[name] for name in expected}
        if got != expected:
            message = f"stats are {got!r}, not {expected!r}"
            raise _MismatchError(message)

    def _insert(self, label: int, deadline: int) -> tuple[Any, Any]:
        admitted = self.model.admits(deadline)
        try:
            id = self.wheel.insert(deadline, label)  # noqa: A001 the protocol's word
        except SpanExceededError:
            return admitted, False
        self._ids[label] = id
        is_new = id not in self._given
        self._given.add(id)
        self.model.insert(id, deadline, label)
        return (admitted, True), (True, is_new)

    def _id(self, label: int) -> int:
        # An insert that was refused, or left out by shrinking, must not have the id of another entry.
        return self._ids.get(label, min(label, -1))

    def _cancel(self, label: int, _: int) -> tuple[Any, Any]:
        id = self._id(label)  # noqa: A001 the protocol's word
        return self.model.cancel(id), self.wheel.cancel(id)

    def _move(self, label: int, deadline: int) -> tuple[Any, Any]:
        id = self._id(label)  # noqa: A001 the protocol's word
        if id in self.model.pending and not self.model.admits(deadline):
            try:
                return "refused", self.wheel.reschedule(id, deadline)
            except SpanExceededError:
                return None, None
        return self.model.reschedule(id, deadline), self.wheel.reschedule(id, deadline)

    def _look(self, label: int, _: int) -> tuple[Any, Any]:
        id = self._id(label)  # noqa: A001 the protocol's word
        return self.model.deadline(id), self.wheel.deadline(id)

    def _advance(self, now: int, limit: int) -> tuple[Any, Any]:
        at_most = None if limit == NO_LIMIT else limit
        return self.model.advance(now, at_most), self.wheel.advance(now, at_most)

    def _next(self, _: int, __: int) -> tuple[Any, Any]:
        return self.model.next_expiration(), self.wheel.next_expiration()

    def _drain(self, _: int, __: int) -> tuple[Any, Any]:
        return self.model.drain(), self.wheel.drain()


def run_machine(make_wheel: MakeWheel, seed: int, operations: int, check_every: int = 1) -> MachineReport:
    """
    Run random *operations*, and compare each answer with the model's. The *seed* repeats the run.

    The invariants are checked after each *check_every* operations. A *check_every* of 1 locates a divergence exactly. A
    DivergenceError has the shortest list of operations that shows the difference.
    """
    kinds: Counter[str] = Counter()
    expired = 0
    numbers = range(-(-operations // EPISODE))
    for number in numbers:
        episode = _Episode(make_wheel, f"{seed} {number}", min(EPISODE, operations - number * EPISODE))
        try:
            expired += episode.play(check_every)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of native code is not an Exception
            case = _shrunk(make_wheel, episode.failing_case())
            raise DivergenceError(seed, number, case, _complaint(make_wheel, case) or repr(error)) from error
        kinds.update(name for name, _, _ in episode.operations)
    return MachineReport(seed, operations, len(numbers), kinds, expired)


def replay(make_wheel: MakeWheel, case: Case) -> None:
    """
    Run *case* and raise if the wheel diverges.

    An operation on an entry that the case never inserted uses an unknown id.
    """
    run = _Run(make_wheel, case.start)
    for operation in case.operations:
        run.step(operation)
        run.check()


class _Episode:
    def __init__(self, make_wheel: MakeWheel, seed: str, size: int) -> None:
        self._make_wheel = make_wheel
        self._seed = seed
        self._size = size
        self.start = 0
        self.operations: list[Operation] = []

    def play(self, check_every: int) -> int:
        rng = random.Random(self._seed)
        self.start = draw_start(rng)
        self.operations.clear()
        run = _Run(self._make_wheel, self.start)
        choice = Operations(rng, run.model, self.start)
        for number in range(self._size):
            operation = choice.draw()
            self.operations.append(operation)
            run.step(operation)
            if number % check_every == 0:
                run.check()
        run.check()
        return run.model.counts["fires"]

    def failing_case(self) -> Case:
        with suppress(BaseException):
            self.play(check_every=1)
        return Case(self.start, tuple(self.operations))


def _shrunk(make_wheel: MakeWheel, case: Case) -> Case:
    # Leave out smaller and smaller pieces, as long as the case still fails.
    operations = list(case.operations)
    size = len(operations) // 2
    while size:
        position = 0
        while position < len(operations):
            fewer = operations[:position] + operations[position + size :]
            if _complaint(make_wheel, Case(case.start, tuple(fewer))):
                operations = fewer
            else:
                position += size
        size //= 2
    return Case(case.start, tuple(operations))


def _complaint(make_wheel: MakeWheel, case: Case) -> str | None:
    try:
        replay(make_wheel, case)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 a panic of native code is not an Exception
        return f"{type(error).__name__.lstrip('_')}: {error}"
    return None
