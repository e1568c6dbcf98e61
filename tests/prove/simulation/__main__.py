"""
Simulate many days, print each day on which tickwheel broke a guarantee, with its seed, and print a summary line.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter

from simulation import run_seeds

_SHOWN = 5
"""
Maximum number of violations that are printed for one day.
"""


def main() -> int:
    """
    Run the simulations. Return 1 if there was a violation.
    """
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many days (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--hours", type=float, default=24.0, help="how long a day is (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes a cluster has (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    broken = 0
    seeds = range(options.first, options.first + options.seeds)
    processes = min(options.processes, options.seeds)
    for verdict in run_seeds(seeds, options.hours, options.nodes, processes=processes):
        counts += verdict.counts
        if verdict.violations:
            broken += 1
            print(f"seed {verdict.seed}: {len(verdict.violations)} violations")
            for line in verdict.violations[:_SHOWN]:
                print(f"  {line}")
            hours = "" if options.hours == 24.0 else f" --hours {options.hours:g}"
            nodes = "" if options.nodes == 3 else f" --nodes {options.nodes}"
            print(f"  again: {parser.prog} --first {verdict.seed} --seeds 1{hours}{nodes}")
    facts = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{options.seeds} days, {broken} of them with violations: {facts}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
