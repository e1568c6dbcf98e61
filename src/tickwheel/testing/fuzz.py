"""
Random operations on the shipped designs: `python -m tickwheel.testing.fuzz --wheel heap --operations 1000000 --seed 7`.

Prints a line for each design, with the seed that repeats its run; ends with 1 if any design diverged.
Without arguments it does ten million on the native wheel and a million on each other one, which takes some minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from tickwheel.testing.wheel_machine import DivergenceError, MakeWheel, run_machine
from tickwheel.wheels import CascadingWheel, HeapWheel, HierarchicalWheel, NativeWheel, RoundsWheel, SingleWheel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tickwheel.wheels._contract import Wheel

__all__ = ["DESIGNS", "main"]


def _standing_at(make: Callable[[], Wheel]) -> MakeWheel:
    def make_wheel(start: int) -> Wheel:
        wheel = make()
        wheel.advance(start)
        return wheel

    return make_wheel


DESIGNS: dict[str, tuple[MakeWheel, ...]] = {
    "native": (_standing_at(NativeWheel),),
    "heap": (_standing_at(HeapWheel),),
    "single": (
        _standing_at(lambda: SingleWheel(tick=1e-9, slots=64)),
        _standing_at(lambda: SingleWheel(tick=0.001, slots=512)),
        _standing_at(lambda: SingleWheel(tick=1e-7, slots=2)),
    ),
    "rounds": (
        _standing_at(lambda: RoundsWheel(tick=1e-9, slots=64)),
        _standing_at(lambda: RoundsWheel(tick=0.001, slots=512)),
        _standing_at(lambda: RoundsWheel(tick=1e-7, slots=3)),
    ),
    "hierarchical": (
        _standing_at(lambda: HierarchicalWheel(tick=1e-9, slots=64)),
        _standing_at(lambda: HierarchicalWheel(tick=0.001, slots=20)),
        _standing_at(lambda: HierarchicalWheel(tick=1e-7, slots=2)),
    ),
    "cascading": (
        _standing_at(lambda: CascadingWheel(tick=1e-9)),
        _standing_at(lambda: CascadingWheel(tick=0.01)),
    ),
}
"""Each design by its name, in the geometries that are worth a run; they share its operations."""

OPERATIONS = {name: 10_000_000 if name == "native" else 1_000_000 for name in DESIGNS}
"""How many operations each design gets where nothing else is said."""


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the designs asked for and return how many diverged, at most 1.
    """
    parser = argparse.ArgumentParser(prog="python -m tickwheel.testing.fuzz", description=__doc__)
    parser.add_argument("--wheel", action="append", choices=sorted(DESIGNS), help="a design; default: all of them")
    parser.add_argument(
        "--operations", type=_positive, default=None, help="per design (default: 1000000; native 10000000)"
    )
    parser.add_argument("--seed", type=int, default=None, help="repeats a run (default: drawn)")
    parser.add_argument(
        "--check-every", type=_positive, default=16, help="verify the invariants so often (default: 16)"
    )
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    names = options.wheel or list(DESIGNS)
    return max(_fuzz(name, seed, options.operations or OPERATIONS[name], options.check_every) for name in names)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        message = f"{text} is not 1 or more"
        raise argparse.ArgumentTypeError(message)
    return number


def _fuzz(name: str, seed: int, operations: int, check_every: int) -> int:
    started = time.perf_counter()
    share, rest = divmod(operations, len(DESIGNS[name]))
    episodes = expired = 0
    for number, make_wheel in enumerate(DESIGNS[name]):
        try:
            report = run_machine(make_wheel, seed + number, share + (rest if number == 0 else 0), check_every)
        except DivergenceError as divergence:
            _say(f"{name}: geometry {number}: {divergence}")
            _say(f"{name}: seed {seed}, 1 divergence")
            return 1
        episodes += report.episodes
        expired += report.expired
    took = time.perf_counter() - started
    _say(
        f"{name}: seed {seed}, {operations} operations on {episodes} wheels, "
        f"{expired} expired, 0 divergences, {took:.1f} s"
    )
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
