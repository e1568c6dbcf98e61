from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.lab.options import chosen, name_of, wheel_option
from tickwheel.cli.options import json_option
from tickwheel.cli.output import print_json, print_rows
from tickwheel.lab.designs import Design
from tickwheel.lab.replay import replay
from tickwheel.lab.trace import TraceOperation, read_trace
from tickwheel.lab.tune import facts_of, fitted

__all__ = ["command"]


@click.command("replay")
@click.argument("traces", nargs=-1, required=True, type=click.Path(path_type=Path))
@wheel_option
@json_option
def command(traces: tuple[Path, ...], wheels: tuple[str, ...], as_json: bool) -> None:
    """
    Play TRACES through designs and print the outcome of every timer.

    Every correct design gives the same counts; this is checked.
    """
    designs = chosen(wheels)
    rows = []
    for path in traces:
        operations = read_trace(path)
        facts = facts_of(operations)
        first = None
        for design in designs:
            row = _played(name_of(path), fitted(design, facts), operations)
            first = first or row
            _check_agreement(first, row)
            rows.append(row)
            _print(row, as_json=as_json)
    if _is_table(as_json=as_json):
        columns = list(rows[0])
        print_rows(columns, (_cells(row) for row in rows), right=columns[2:])


def _print(row: dict[str, Any], *, as_json: bool) -> None:
    # Each result is printed at once, because a long trace takes minutes. Only a table on a terminal needs all
    # results, for its column widths.
    if as_json:
        print_json(row)
    elif not _is_table(as_json=as_json):
        print_rows(list(row), [_cells(row)])


def _is_table(*, as_json: bool) -> bool:
    return not as_json and sys.stdout.isatty()


def _played(trace: str, design: Design, operations: list[TraceOperation]) -> dict[str, Any]:
    wheel = design.make()
    began = time.perf_counter()
    label = f"{trace}: {design.name}"
    with click.progressbar(length=len(operations), label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        run = replay(operations, wheel, lambda done: bar.update(done - bar.pos))
    counts = asdict(run.counts)
    late = {"late_max_s": run.late_max_ns / 1e9, "wake_ups": run.wake_ups, "took_s": time.perf_counter() - began}
    return {"trace": trace, "wheel": str(design), **counts, **late}


def _check_agreement(first: dict[str, Any], result: dict[str, Any]) -> None:
    outcomes = ("set", "move", "cancel", "late_cancel", "fire", "fired_within_span", "peak_pending")
    differing = [name for name in outcomes if result[name] != first[name]]
    if differing:
        message = f"{result['wheel']} and {first['wheel']} differ on {result['trace']} in {', '.join(differing)}"
        raise Refused(ExitCode.FAILED, message)


def _cells(row: dict[str, Any]) -> list[str]:
    return list(map(_cell, row.values()))


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
