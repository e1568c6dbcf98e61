"""
`python -m benchmarks.pythons FILE...`: prints the timer benchmark's results of several Pythons in one table.

Each figure is a ratio: the CPU time of an operation on asyncio's loop of the same Python, divided by tickwheel's. The
nanoseconds are in brackets. Ratios on one Python are valid even on a busy machine. A comparison of the nanoseconds of
two Pythons is not.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

WORKS = ("call_later+cancel", "reschedule", "set+fire")


def main() -> None:
    """
    Read the files and print the table, as Markdown.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pythons", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, help="what --json has written, one for each Python")
    parser.add_argument("--pending", type=int, default=100_000, help="how many timers were pending")
    options = parser.parse_args()
    print(f"| {options.pending:,} pending | {' | '.join(WORKS)} |")
    print(f"|---|{'---|' * len(WORKS)}")
    for path in options.files:
        document = json.loads(path.read_text("utf-8"))
        print(f"| {document['versions']['python']} | {' | '.join(_cells(document['rows'], options.pending))} |")


def _cells(rows: list[dict[str, Any]], pending: int) -> list[str]:
    chosen = [row for row in rows if row["pending"] == pending and row["clock"] == "cpu"]
    found = {(row["work"], row["subject"]): row["value"] for row in chosen}
    return [_cell(found.get((work, "tickwheel")), found.get((work, "asyncio"))) for work in WORKS]


def _cell(own: float | None, asyncio: float | None) -> str:
    return "not measured" if own is None or asyncio is None else f"{asyncio / own:.1f} ({own:,.0f} ns)"


if __name__ == "__main__":
    main()
