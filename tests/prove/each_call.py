"""
Proves that any single failing store call does no harm, in simulations of two minutes.

    python tests/prove/each_call.py [--seeds 2] [--every 4]

Each simulation is repeated once for each of its store calls, and in each repetition this call fails. The call fails
before its effect, after its effect, or after its effect with an unexpected error. A call that only reads has no effect,
so it fails in one way. With `--every N`, each of the three ways is applied to one call in N, and to different calls.
The simulations run in as many processes as there are cores.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from typing import Final

from simulation import How, Plan, check_history, simulate

__all__ = ["Result", "prove"]

_READS: Final = {"attempts", "due", "get", "look", "now_ms", "overdue", "scopes", "withdrawal_requests"}


@dataclass(frozen=True, slots=True)
class Case:
    """
    One simulated failure: the seed of the simulation, the failing call, and how the call fails.
    """

    seed: int
    number: int
    name: str
    how: How


@dataclass(slots=True)
class Result:
    """
    The number of simulated failures, and the violations found.
    """

    failures: int = 0
    violations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)

    def add(self, case: Case, found: list[str]) -> None:
        """
        Count the violations *found* in *case*.
        """
        self.failures += 1
        self.calls[case.name] += 1
        self.violations += len(found)
        if found:
            self.said.append(f"seed {case.seed}: call {case.number} ({case.name}), failed {case.how}: {found[0]}")


def plan_of(seed: int) -> Plan:
    """
    Return the small plan of *seed*.

    With an odd seed the plan uses SQLite.
    """
    return Plan(seed, hours=0.04, asks=20, breaks=0)


def cases(seed: int, every: int = 1, first: int = 0) -> Iterator[Case]:
    """
    Yield the cases for every *every*-th call in the plan of *seed*, from call number *first* on.
    """
    calls = simulate(plan_of(seed)).calls_made
    for turn, how in enumerate(How):
        for number in range(1 + first + turn * (every // len(How)), len(calls) + 1, every):
            name = calls[number - 1]
            if how is How.BEFORE or name not in _READS:
                yield Case(seed, number, name, how)


def violations(case: Case) -> list[str]:
    """
    Simulate *case*, in which one call fails.

    Return the violations of the scheduler's promises.
    """
    plan = replace(plan_of(case.seed), failing=(case.number, case.how))
    return [str(each) for each in check_history(simulate(plan), plan.shards)]


def prove(seed: int, every: int = 1, first: int = 0) -> Result:
    """
    Simulate, one after another, the failure of every *every*-th call in the plan of *seed*, from number *first* on.
    """
    result = Result()
    for case in cases(seed, every, first):
        result.add(case, violations(case))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    chosen = [case for seed in seeds for case in cases(seed, options.every)]
    result = Result()
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for case, found in zip(chosen, pool.map(violations, chosen, chunksize=8), strict=True):
            result.add(case, found)
    print(
        f"failures {result.failures} of {len(result.calls)} kinds of call, one in {options.every}, "
        f"violations {result.violations}, seeds {seeds.start} to {seeds.stop - 1}"
    )
    for line in result.said[:10]:
        print(f"  {line}", file=sys.stderr)
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
