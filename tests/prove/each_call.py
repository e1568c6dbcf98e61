"""
Every store call failed once, before and after it took effect, in a simulated quarter of an hour.

    python tests/prove/each_call.py --seeds 2
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field, replace

from simulation import Plan, check_history, simulate

__all__ = ["Result", "prove"]


@dataclass(slots=True)
class Result:
    """
    What came of the failures.
    """

    failures: int = 0
    violations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)


def prove(seed: int, every: int = 1, first: int = 0) -> Result:
    """
    Fail each call of one small plan (or one in *every*, from *first* on), both ways; an odd seed is SQLite.
    """
    plan = Plan(seed, hours=0.04, asks=20, breaks=0)
    calls = simulate(plan).calls_made
    result = Result()
    for number in range(1 + first, len(calls) + 1, every):
        for is_after in (False, True):
            result.failures += 1
            result.calls[calls[number - 1]] += 1
            failing = replace(plan, failing=(number, is_after))
            found = check_history(simulate(failing), plan.shards)
            result.violations += len(found)
            if found:
                when = "after" if is_after else "before"
                name = calls[number - 1]
                result.said.append(f"seed {seed}: call {number} ({name}), failed {when} its effect: {found[0]}")
    return result


def main() -> int:
    """
    Read the command line, prove, print one line.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    results = [prove(seed) for seed in range(options.first, options.first + options.seeds)]
    calls = sum((result.calls for result in results), Counter())
    violations = sum(result.violations for result in results)
    print(
        f"failures {sum(result.failures for result in results)} of {len(calls)} kinds of call, "
        f"violations {violations}, seeds {options.first} to {options.first + options.seeds - 1}"
    )
    for line in [line for result in results for line in result.said][:10]:
        print(f"  {line}", file=sys.stderr)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
