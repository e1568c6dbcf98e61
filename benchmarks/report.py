"""
Prints the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

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
    Print a table for each work, with a line for each subject and a column for each number of timers.
    """
    for (work, unit, clock), group in groupby(
        sorted(rows, key=lambda row: _first(rows, row)), key=lambda row: (row["work"], row["unit"], row["clock"])
    ):
        members = list(group)
        sizes = sorted({row["pending"] for row in members})
        print(f"\n{work}, {unit}{f' {clock}' if clock else ''}".ljust(46) + "".join(f"{size:>14,}" for size in sizes))
        for subject in dict.fromkeys(row["subject"] for row in members):
            values = {row["pending"]: row["value"] for row in members if row["subject"] == subject}
            print(f"  {subject:<43}" + "".join(_cell(values.get(size)) for size in sizes))


def _first(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> int:
    table = [(other["work"], other["unit"], other["clock"]) for other in rows]
    return table.index((row["work"], row["unit"], row["clock"]))


def _cell(value: float | None) -> str:
    if value is None:
        return f"{'-':>14}"
    return f"{value:>14,.1f}" if abs(value) < 1000 else f"{value:>14,.0f}"


def print_bars(bars: Sequence[dict[str, Any]]) -> None:
    """
    Print each bar with its measured figure.
    """
    if bars:
        print("\nbars")
    for bar in bars:
        word = "met   " if bar["is_met"] else "MISSED"
        figure = f"{bar['figure']:,.2f} {bar['unit']}"
        print(f"  {word}  {bar['text']:<36}{bar['pending']:>12,}  {figure:<24} {bar['bar']}")
