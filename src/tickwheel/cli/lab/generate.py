from __future__ import annotations

from pathlib import Path

import click

from tickwheel.cli.values import DurationRange
from tickwheel.lab.clusters import CLUSTERS
from tickwheel.lab.generate import KINDS, Load, generate
from tickwheel.lab.trace import write_trace

__all__ = ["command"]


@click.command("generate")
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--seconds",
    type=DurationRange(0, is_least_open=True),
    default=60.0,
    show_default="60s",
    help="How long the trace is.",
)
@click.option(
    "--size",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="How many connections a second, clients, keys or jobs.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same trace.")
@click.option(
    "--cluster",
    type=click.Choice(list(CLUSTERS)),
    default="cluster4",
    show_default=True,
    help="The cluster whose TTLs, writes and skew a cache has.",
)
def command(*, kind: str, file: Path, seconds: float, size: int, seed: int, cluster: str) -> None:
    """
    Write a trace of KIND to FILE, gzipped if its name ends in .gz.
    """
    operations = generate(Load(kind, seconds, size, seed, cluster))
    count = write_trace(file, operations)
    click.echo(f"{count:,} operations in {file}")
