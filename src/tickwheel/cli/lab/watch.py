from __future__ import annotations

import sys
from pathlib import Path

import click

from tickwheel.cli.lab.options import name_of, trace_argument
from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.trace import read_trace
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import FRAMES, render_watch, small
from tickwheel.wheels import CARDS

__all__ = ["command"]

OPERATIONS_A_FRAME = 8
FIRST = ("hierarchical", "heap")


@click.command("watch")
@trace_argument
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    metavar="DESIGN",
    help="The design shown first; may be given twice.  [default: both kinds]",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default="watch.html", show_default=True)
@click.option("--frames", type=click.IntRange(1, 20_000), default=FRAMES, show_default=True, help="Maximum number.")
def command(trace: Path, wheels: tuple[str, ...], out: Path, frames: int) -> None:
    """
    Write a page that plays the beginning of TRACE on each design, step by step.
    """
    if len(wheels) > len(FIRST):
        message = f"--wheel is given {len(wheels)} times: give the two designs that are shown first"
        raise click.UsageError(message)
    # Most operations make a frame each, so operations far beyond the last frame need not be read.
    operations = read_trace(trace, OPERATIONS_A_FRAME * frames)
    facts = facts_of(operations)
    asked = [parse_design(text) for text in wheels or FIRST]
    named = [design.name for design in asked]
    others = [name for name in ("heap", "hierarchical", *CARDS) if name not in named]
    designs = [small(design, facts) for design in (*asked, *map(Design, dict.fromkeys(others)))]
    is_quiet = not sys.stderr.isatty()
    with click.progressbar(length=len(designs) + 1, show_eta=False, file=sys.stderr, hidden=is_quiet) as bar:

        def report(words: str) -> None:
            bar.label = words
            bar.update(1)

        page = render_watch(name_of(trace), designs, operations, frames, report)
    out.write_text(page, "utf-8")
    click.echo(f"{designs[0]} beside {designs[1]} in {out}")
