"""
Prints the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from benchmarks.model import NO_LIMIT

__all__ = ["print_bars", "print_head", "print_rows"]


def print_head(document: dict[str, Any], cases: int, reps: int) -> None:
    """
    Print the conditions of the run.
    """
    machine = document["machine"]
    print(f"{document['benchmark']}: {cases} cases, {reps} repetitions each, every one in a fresh process, interleaved")
    print(f"{document['versions']['python']}; {machine['processor']}, {machine['cores']} cores, load {machine['load']}")


def print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """
    Print a table for each workload.

    It has a line for each subject and a column for each number of timers.
    """
    for (work, unit, clock), group in groupby(
        sorted(rows, key=lambda row: _first(rows, row)), key=lambda row: (row["work"], row["unit"], row["clock"])
    ):
        members = list(group)
        sizes = sorted({row["pending"] for row in members})
        print(f"\n{work}, {unit}{f' {clock}' if clock else ''}".ljust(62) + "".join(f"{size:>14,}" for size in sizes))
        for subject in dict.fromkeys(row["subject"] for row in members):
            values = {row["pending"]: row["value"] for row in members if row["subject"] == subject}
            print(f"  {subject:<59}" + "".join(_cell(values.get(size)) for size in sizes))


def _first(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> int:
    table = [(other["work"], other["unit"], other["clock"]) for other in rows]
    return table.index((row["work"], row["unit"], row["clock"]))


def _cell(value: float | None) -> str:
    if value is None:
        return f"{'-':>14}"
    return f"{value:>14,.1f}" if abs(value) < 1000 else f"{value:>14,.0f}"


def print_bars(bars: Sequence[dict[str, Any]]) -> None:
    """
    Print each bar with its measured figure. A figure without a limit is shown without a judgement.
    """
    if bars:
        print("\nbars")
    for bar in bars:
        word = "" if bar["bar"] == NO_LIMIT else "met" if bar["is_met"] else "MISSED"
        figure = f"{bar['figure']:,.2f} {bar['unit']}"
        place = f"{bar['pending']:>12,}  {bar['subject']:<22}"
        print(f"  {word:<6}  {bar['text']:<48}{place} {figure:<24} {bar['bar']}")
