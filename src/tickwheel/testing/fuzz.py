"""
Random operations on the shipped designs: `python -m tickwheel.testing.fuzz --wheel heap --operations 1000000 --seed 7`.

The command prints a line for each design, with the seed that repeats its run. The exit status is 1 if any design
diverged. Without arguments, the command does ten million operations on the native wheel, and a million on every other
wheel or engine. This takes minutes. Callbacks of the engines set, move, cancel, drain, close and raise.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from tickwheel._core import Engine as NativeEngine
from tickwheel.testing.engine_machine import EngineDivergenceError, MakeEngine, run_engine_machine
from tickwheel.testing.wheel_machine import DivergenceError, MakeWheel, run_machine
from tickwheel.timers.engine import WheelEngine
from tickwheel.wheels import CARDS, HeapWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tickwheel.wheels.contract import Wheel

__all__ = ["DESIGNS", "ENGINES", "main"]


def _standing_at(make: Callable[..., Wheel], options: Mapping[str, float]) -> MakeWheel:
    def make_wheel(start: int) -> Wheel:
        wheel = make(**options)
        wheel.advance(start)
        return wheel

    return make_wheel


DESIGNS: dict[str, tuple[MakeWheel, ...]] = {
    name: tuple(_standing_at(card.make, options) for options in card.trials) for name, card in CARDS.items()
}
"""The geometries of each design, keyed by the design's name. The operations are divided among the geometries."""

ENGINES: dict[str, MakeEngine] = {
    "native-engine": lambda clock, max_pending: NativeEngine(clock, max_pending=max_pending),
    "heap-engine": lambda clock, max_pending: WheelEngine(HeapWheel(), clock, max_pending=max_pending),
}
"""The engines, keyed by name: the native one, and the one for all other wheels."""

OPERATIONS = {"native": 10_000_000}
"""Default number of operations, keyed by the name of the design or engine. It is a million for all other names."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the requested designs. Return 1 if any design diverged, and 0 if none did.
    """
    parser = argparse.ArgumentParser(prog="python -m tickwheel.testing.fuzz", description=__doc__)
    parser.add_argument("--wheel", action="append", choices=[*DESIGNS, *ENGINES], help="what to run; default: all")
    parser.add_argument(
        "--operations", type=_positive, default=None, help="for each (default: 1000000; native 10000000)"
    )
    parser.add_argument("--seed", type=int, default=None, help="repeats a run (default: drawn)")
    parser.add_argument(
        "--check-every", type=_positive, default=16, help="verify the invariants so often (default: 16)"
    )
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    worst = 0
    for name in options.wheel or [*DESIGNS, *ENGINES]:
        operations = options.operations or OPERATIONS.get(name, 1_000_000)
        started = time.perf_counter()
        try:
            done = (
                _fuzz_engine(name, seed, operations)
                if name in ENGINES
                else _fuzz_wheel(name, seed, operations, options.check_every)
            )
        except (DivergenceError, EngineDivergenceError) as divergence:
            _say(f"{name}: {divergence}\n{name}: seed {seed}, 1 divergence")
            worst = 1
        else:
            _say(f"{name}: seed {seed}, {done}, 0 divergences, {time.perf_counter() - started:.1f} s")
    return worst


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{text} is not 1 or more"
        raise argparse.ArgumentTypeError(message)
    return number


def _fuzz_wheel(name: str, seed: int, operations: int, check_every: int) -> str:
    share, rest = divmod(operations, len(DESIGNS[name]))
    wheels = expired = 0
    for number, make_wheel in enumerate(DESIGNS[name]):
        report = run_machine(make_wheel, seed + number, share + (rest if number == 0 else 0), check_every)
        wheels += report.episodes
        expired += report.expired
    return f"{operations} operations on {wheels} wheels, {expired} expired"


def _fuzz_engine(name: str, seed: int, operations: int) -> str:
    report = run_engine_machine(ENGINES[name], seed, operations)
    return f"{report.operations} operations, {report.events} events, {report.fired} fired"


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
