from __future__ import annotations

import sys
from pathlib import Path

import click

from tickwheel.cli.lab.options import chosen, name_of, trace_argument, wheel_option
from tickwheel.cli.output import print_rows
from tickwheel.cli.values import OutputPath
from tickwheel.lab.compare import STEPS, compare
from tickwheel.lab.designs import Design
from tickwheel.lab.report import figures_table, render_report
from tickwheel.lab.trace import read_trace
from tickwheel.lab.tune import SLOTS_MAX, Load, facts_of, fitted
from tickwheel.wheels import CARDS

__all__ = ["command"]


class _Sizes(click.ParamType[list[int]]):
    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        sizes = []
        for part in str(value).split(","):
            number = part.strip().replace("k", "000").replace("M", "000000")
            if not number.isascii() or not number.isdigit() or not 0 < int(number) <= 10**8:
                self.fail(f"{part!r}: expected numbers such as 1k,100k,1M", param, ctx)
            sizes.append(int(number))
        return sizes


@click.command("compare")
@trace_argument
@wheel_option
@click.option(
    "--pending",
    type=_Sizes(),
    default="1k,100k,1M",
    show_default=True,
    help="How many timers are pending, in each run.",
)
@click.option(
    "--steps", type=click.IntRange(1_000), default=STEPS, show_default=True, help="How many operations follow."
)
@click.option("--report", type=OutputPath(), help="Write a page with charts to this file.")
@click.option("--json", "json_file", type=OutputPath(), help="Write the figures to this file.")
def command(
    *, trace: Path, wheels: tuple[str, ...], pending: list[int], steps: int, report: Path | None, json_file: Path | None
) -> None:
    """
    Overlay copies of TRACE until enough timers are pending, and measure each design.

    A million timers take some minutes.
    """
    operations = read_trace(trace)
    facts = facts_of(operations)
    designs = [_comparable(design, facts) for design in chosen(wheels)]
    cases = len(pending) * (len(designs) + 1) + 1
    with click.progressbar(length=cases, show_eta=False, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:

        def show(words: str) -> None:
            bar.label = words
            bar.update(1)

        comparison = compare(name_of(trace), operations, designs, pending, steps=steps, progress=show)
    if json_file is not None:
        json_file.write_text(comparison.as_json() + "\n", "utf-8")
    if report is not None:
        report.write_text(render_report(comparison), "utf-8")
    columns, *rows = figures_table(comparison.rows)
    print_rows(columns, rows, right=columns[1:])


def _comparable(design: Design, facts: Load) -> Design:
    usual = fitted(Design(design.name, {**CARDS[design.name].compared, **design.options}), facts)
    # Some traces have delays that are longer than a ring with this tick. For these, use the finest tick that fits.
    return fitted(design, facts) if usual.options.get("slots", 0) > SLOTS_MAX else usual
