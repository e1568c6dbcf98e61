"""
Runs random programs on an engine and a model, and compares the two after each step. Callbacks re-enter and raise.

    report = run_engine_machine(make_engine, seed=7, operations=100_000)

A program is a list of operations. An operation that sets a timer contains the operations of the timer's callback. The
program must cause equal events on the engine and on the model. The first difference ends the run with an
`EngineDivergenceError`, which has the seed and the shortest program that shows the difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tickwheel.clock import seconds
from tickwheel.errors import ClosedError, ReentrantError, TooManyTimersError
from tickwheel.testing._engine_model import EngineModel
from tickwheel.testing._engine_moves import Operation, Program, draw_program
from tickwheel.testing.manual_clock import ManualClock
from tickwheel.timers.contract import Engine

__all__ = ["EngineDivergenceError", "EngineReport", "MakeEngine", "replay_engine", "run_engine_machine"]

MakeEngine: TypeAlias = Callable[[ManualClock, int | None], Engine]
"""Returns a new engine on a clock, with the given max_pending."""

EPISODE = 300
"""Number of operations on each engine, not counting the operations of callbacks."""


@dataclass(frozen=True, slots=True)
class EngineReport:
    """
    Result of a run without a divergence. The *seed* repeats the run.

    *operations* is the number of operations, without those of callbacks. *events* is the number of answers, firings and
    errors, and *fired* is the number of timers that fired.
    """

    seed: int
    operations: int
    events: int
    fired: int


class EngineDivergenceError(AssertionError):
    """
    An engine differed from the model, or broke an invariant.
    """

    def __init__(self, seed: int, program: Program, complaint: str) -> None:
        self.seed = seed
        self.program = program
        steps = "\n".join(f"    {operation!r}," for operation in program.operations)
        super().__init__(
            f"seed {seed}: {complaint}\nshrunk to {len(program.operations)} operations: "
            f"Program(start={program.start}, max_pending={program.max_pending}, operations=(\n{steps}\n))"
        )


class _ExitError(BaseException): ...


class _Player:
    def __init__(self, engine: Any, now: Callable[[], int], fire: Callable[[int | None], None]) -> None:
        self.engine = engine
        self.now = now
        self.fire = fire
        self.timers: list[Any] = []
        self.trace: list[object] = []
        engine.on_error = self._on_error

    def play(self, operation: Operation) -> None:
        name, *arguments = operation
        try:
            answer = getattr(self, name)(*arguments)
        except (ClosedError, TooManyTimersError, ReentrantError) as error:
            answer = type(error).__name__
        self.trace.append((name, answer))

    def set(self, delay_ns: int, slack_ns: int, script: tuple[Operation, ...]) -> None:
        when = seconds(max(self.now() + delay_ns, 0))
        number = len(self.timers)
        self.timers.append(None)
        self.timers[number] = self.engine.call_at(when, self._fired, number, script, slack=slack_ns / 1e9)

    def cancel(self, back: int) -> object:
        timer = self._timer(back)
        return timer and timer.cancel()

    def move(self, back: int, delay_ns: int) -> object:
        timer = self._timer(back)
        return timer and timer.reschedule(seconds(max(self.now() + delay_ns, 0)))

    def look(self, back: int) -> object:
        timer = self._timer(back)
        return timer and (timer.pending(), timer.cancelled(), timer.when(), len(self.engine))

    def again(self, delay_ns: int) -> object:
        fired = [event[1] for event in self.trace if isinstance(event, tuple) and event[0] == "fired"]
        return bool(fired) and self.timers[fired[-1]].reschedule(seconds(max(self.now() + delay_ns, 0)))

    def nest(self) -> None:
        self.engine.fire_due(0)

    def drain(self) -> object:
        return [(each.args[0], each.deadline, each.remaining) for each in self.engine.drain()]

    def close(self) -> object:
        return [(each.args[0], each.deadline, each.remaining) for each in self.engine.close()]

    def fail(self) -> None:
        raise LookupError

    def leave(self) -> None:
        raise _ExitError

    def turn(self, limit: int | None) -> None:
        try:
            self.fire(limit)
        except _ExitError:
            self.trace.append("left")

    def _timer(self, back: int) -> Any:
        return self.timers[-1 - back] if back < len(self.timers) else None

    def _fired(self, number: int, script: tuple[Operation, ...]) -> None:
        self.trace.append(("fired", number, self.now()))
        for operation in script:
            self.play(operation)

    def _on_error(self, error: BaseException, timer: Any) -> None:
        number = next(number for number, each in enumerate(self.timers) if each is timer)
        self.trace.append(("error", type(error).__name__, number))


class _Run:
    def __init__(self, make_engine: MakeEngine, program: Program) -> None:
        self._clock = ManualClock(program.start)
        self._engine = make_engine(self._clock, program.max_pending)
        self._model = EngineModel(program.start, program.max_pending)
        self._real = _Player(self._engine, self._clock.monotonic_ns, self._fire)
        self._dumb = _Player(self._model, lambda: self._model.now, self._follow)
        self._fires = 0

    @property
    def events(self) -> int:
        return len(self._real.trace)

    @property
    def fired(self) -> int:
        return self._model.counts["fires"]

    def step(self, operation: Operation) -> None:
        before = len(self._real.trace)
        if operation[0] == "pass":
            self._clock.jump(operation[1] / 1e9)
            self._model.now = self._clock.monotonic_ns()
        else:
            self._real.play(operation)
            self._dumb.play(operation)
        self._engine.check()
        got, expected = self._real.trace[before:], self._dumb.trace[before:]
        assert got == expected, f"{operation[0]} gave\n    {got!r}, not\n    {expected!r}"
        stats = self._engine.stats()
        counts = {"pending": len(self._model), **self._model.counts}
        assert {name: stats[name] for name in counts} == counts, f"{stats!r} instead of {counts!r}"
        assert len(self._engine) == counts["pending"]

    def _fire(self, limit: int | None) -> None:
        before = self._engine.stats()["fires"]
        is_left = True
        try:
            fired = self._engine.fire_due(limit)
            is_left = False
        finally:
            self._fires = self._engine.stats()["fires"] - before
        assert is_left or fired == self._fires, f"fire_due said {fired} and fired {self._fires}"
        assert limit is None or fired <= limit, f"{fired} of {limit}"

    def _follow(self, limit: int | None) -> None:
        # With a limit, an engine may stop sooner, so the model fires as many timers as the engine; else it fires all.
        due = len(self._model.due())
        turn = min(due, self._fires)
        self._model.fire_due(turn)
        assert turn == self._fires, f"fired {self._fires} of {due}"
        if self._fires == 0 and limit != 0:
            deadline = self._engine.arm()
            is_idle = deadline is None or deadline > self._model.now
            assert is_idle == (due == 0) or limit is not None, f"idle with {due} due"


def run_engine_machine(make_engine: MakeEngine, seed: int, operations: int) -> EngineReport:
    """
    Run random programs with *operations* operations in total.

    At the first difference, an EngineDivergenceError shows the shortest program with that difference.
    """
    events = fired = 0
    for number in range(-(-operations // EPISODE)):
        program = draw_program(random.Random(f"{seed} {number}"), min(EPISODE, operations - number * EPISODE))
        try:
            run = replay_engine(make_engine, program)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of native code is not an Exception
            shrunk = _shrunk(make_engine, program)
            raise EngineDivergenceError(seed, shrunk, _complaint(make_engine, shrunk) or repr(error)) from error
        events += run.events
        fired += run.fired
    return EngineReport(seed, operations, events, fired)


def replay_engine(make_engine: MakeEngine, program: Program) -> _Run:
    """
    Run *program* and raise if the engine diverges.
    """
    run = _Run(make_engine, program)
    for operation in program.operations:
        run.step(operation)
    return run


def _shrunk(make_engine: MakeEngine, program: Program) -> Program:
    # Leave out smaller and smaller pieces, as long as the program still fails.
    operations = list(program.operations)
    size = len(operations) // 2
    while size:
        position = 0
        while position < len(operations):
            fewer = (*operations[:position], *operations[position + size :])
            if _complaint(make_engine, Program(program.start, program.max_pending, fewer)):
                operations = list(fewer)
            else:
                position += size
        size //= 2
    return Program(program.start, program.max_pending, tuple(operations))


def _complaint(make_engine: MakeEngine, program: Program) -> str | None:
    try:
        replay_engine(make_engine, program)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of native code is not an Exception
        return f"{type(error).__name__}: {error}"
    return None
