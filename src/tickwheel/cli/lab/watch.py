"""
`tickwheel lab watch`: a page on which a design is seen at work.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tickwheel.cli.lab.options import name_of, trace_argument
from tickwheel.lab.designs import parse_design
from tickwheel.lab.trace import read_trace
from tickwheel.lab.tune import facts_of
from tickwheel.lab.watch import FRAMES, render_watch, small

__all__ = ["command"]

OPERATIONS_A_FRAME = 8


@click.command("watch")
@trace_argument
@click.option("--wheel", metavar="DESIGN", default="hierarchical", show_default=True, help="Which design.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default="watch.html", show_default=True)
@click.option("--frames", type=click.IntRange(1, 20_000), default=FRAMES, show_default=True, help="How many at most.")
def command(trace: Path, wheel: str, out: Path, frames: int) -> None:
    """
    Write a page on which a design plays the beginning of TRACE, to be stepped, slowed and sped up.
    """
    # Most operations are a frame each, so what is far behind the last frame need not be read.
    operations = read_trace(trace, OPERATIONS_A_FRAME * frames)
    design = small(parse_design(wheel), facts_of(operations))
    with click.progressbar(length=frames, label=str(design), file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        page = render_watch(name_of(trace), design, operations, frames, lambda done: bar.update(done - bar.pos))
    out.write_text(page, "utf-8")
    click.echo(f"{design} in {out}")
