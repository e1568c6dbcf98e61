"""
Runs each case in a new process.

Repetitions are interleaved, so that a slow minute of the machine affects all cases alike.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module

from benchmarks.model import Case, Measure, Row

__all__ = ["interleaved"]

TIMEOUT_S = 7_200
"""
Timeout of a case in seconds. It is long, because one case sets and scans ten million jobs, and cancels some of them.
"""


def interleaved(cases: Sequence[Case], reps: int) -> list[Row]:
    """
    Run all cases in turns, every second turn in reverse order. Return the medians in the order of the cases.

    Args:
        cases: The cases.
        reps: The number of repetitions of each case that does not name its own number.
    """
    found: dict[tuple[str, str, int, str, str], list[float]] = defaultdict(list)
    for rep in range(reps):
        for case in cases if rep % 2 == 0 else reversed(cases):
            if rep >= (case.reps or reps):
                continue
            _show(f"{rep + 1}/{reps} {case.work} {case.subject} {case.pending:,}")
            for measure in in_fresh_process(case):
                key = (measure.work, case.subject, case.pending, measure.unit, measure.clock)
                found[key].append(measure.value)
    _show("")
    order = {(case.work, case.pending, case.subject): place for place, case in enumerate(cases)}
    rows = [
        Row(work, subject, pending, statistics.median(values), unit, clock, len(values))
        for (work, subject, pending, unit, clock), values in found.items()
    ]
    return sorted(rows, key=lambda row: order.get((row.work, row.pending, row.subject), len(order)))


def _show(progress: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", flush=True, file=sys.stderr)


def in_fresh_process(case: Case) -> list[Measure]:
    """
    Run one case in a separate interpreter.

    Raises:
        SystemExit: If the case failed. Its output is printed first.
    """
    command = [sys.executable, "-m", "benchmarks.run", json.dumps(asdict(case))]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if answer.returncode:
        print(f"\n{answer.stderr}", file=sys.stderr)
        sys.exit(f"the case failed with {answer.returncode}: {case}")
    return [Measure(**measure) for measure in json.loads(answer.stdout)]


def main(text: str) -> None:
    """
    Run as the new process: run the case that *text* describes, and print the results.
    """
    case = Case(**json.loads(text))
    measures = import_module(case.module).measure(case.work, case.subject, case.pending, **case.settings)
    print(json.dumps([asdict(measure) for measure in measures]))


if __name__ == "__main__":
    main(sys.argv[1])
