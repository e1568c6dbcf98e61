"""
`python -m benchmarks NAME` measures, prints, and compares the results with the bars (the required limits and ratios).
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

from benchmarks import machine, report, run

NAMES = ("timers", "aio", "cache", "durable", "http", "lab", "observe", "page", "peers", "scale")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES, help="what to measure")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and shorter waits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows, machine and versions there")
    parser.add_argument("--subject", action="append", help="only this subject; may be given again")
    parser.add_argument("--work", action="append", help="only this work; may be given again")
    parser.add_argument("--pending", type=int, action="append", help="only so many pending; may be given again")
    parser.add_argument("--reps", type=int, help="repetitions of every case, each in a fresh process")
    options = parser.parse_args()

    bench = import_module(f"benchmarks.{options.name}")
    cases = bench.cases(quick=options.quick)
    if options.subject:
        cases = [case for case in cases if case.subject in options.subject]
    if options.work:
        cases = [case for case in cases if case.work in options.work]
    if options.pending:
        cases = [case for case in cases if case.pending in options.pending]
    reps = options.reps or (3 if options.quick else 7)
    document = {
        "benchmark": options.name,
        "quick": options.quick,
        "machine": machine.describe(),
        "versions": machine.versions(),
        "conditions": bench.CONDITIONS,
    }
    report.print_head(document, len(cases), reps)
    document["rows"] = [row.as_dict() for row in run.interleaved(cases, reps)]
    document["bars"] = [verdict.as_dict() for bar in bench.BARS for verdict in bar.judge(document["rows"])]
    report.print_rows(document["rows"])
    report.print_bars(document["bars"])
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
