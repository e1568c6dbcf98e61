from __future__ import annotations

import math
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.interrupts import run_interruptible
from tickwheel.cli.output import print_rows, progress
from tickwheel.cli.values import DURATION, OutputPath
from tickwheel.lab.load.page import COLUMNS, render_load, stage_rows
from tickwheel.lab.load.run import LoadError, LoadResult, Mix, run_load
from tickwheel.lab.load.stages import METRICS, LoadStage, Threshold, misses
from tickwheel.lab.wire import Client

__all__ = ["command"]

_NO_ACCESS: Final = (401, 403)
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?")


class _StageOption(click.ParamType[LoadStage]):
    name = "stage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LoadStage:
        rate, colon, length = str(value).partition(":")
        if not colon or not _NUMBER.fullmatch(rate) or not 0 < float(rate) <= 1e6:  # noqa: PLR2004 no client is faster
            self.fail(f"{value!r} is not a stage: write requests a second and how long, as in 500:30s", param, ctx)
        seconds = DURATION.convert(length, param, ctx)
        if not 0 < seconds <= 86_400:  # noqa: PLR2004 a day
            self.fail(f"{value!r} is not a stage: it may last up to a day, as in 500:30s", param, ctx)
        return LoadStage(float(rate), seconds)


class _Threshold(click.ParamType[Threshold]):
    name = "threshold"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Threshold:
        metric, _, limit = str(value).partition("=")
        if metric not in METRICS:
            self.fail(f"{value!r}: no figure {metric!r}: take one of {', '.join(METRICS)}, as in p99=50ms", param, ctx)
        if METRICS[metric].is_time:
            return Threshold(metric, DURATION.convert(limit, param, ctx))
        if not _NUMBER.fullmatch(limit) or float(limit) > 1:
            self.fail(f"{value!r}: expected a share in 0..1, as in {metric}=0.01", param, ctx)
        return Threshold(metric, float(limit))


@click.command("load")
@click.argument("url", default="http://127.0.0.1:8765")
@click.option(
    "--stage",
    "stages",
    type=_StageOption(),
    multiple=True,
    default=["500:10s"],
    show_default=True,
    help="Requests a second, and for how long; give it again for a further stage.",
)
@click.option(
    "--threshold",
    "thresholds",
    type=_Threshold(),
    multiple=True,
    help=f"What has to hold in every stage, of {', '.join(METRICS)}; may be given again.",
)
@click.option(
    "--moves", type=click.FloatRange(0, 1), default=0.25, show_default=True, help="The share that move a job."
)
@click.option(
    "--cancels", type=click.FloatRange(0, 1), default=0.25, show_default=True, help="The share that cancel a job."
)
@click.option(
    "--due-within",
    type=DURATION,
    default=20.0,
    show_default="20s",
    help="Jobs are due within this time, evenly spread.",
)
@click.option("--target", default="log", show_default=True, help="Target of the jobs.")
@click.option("--handler", default="", help="Name of the handler, or URL of the webhook.")
@click.option(
    "--payload", type=click.IntRange(0, 100_000), default=100, show_default=True, help="How many bytes a payload has."
)
@click.option("--connections", type=click.IntRange(1, 1_000), default=64, show_default=True, help="Maximum number.")
@click.option("--token", envvar="TICKWHEEL_TOKEN", show_envvar=True, help="A write token, if the service needs one.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed makes the same requests.")
@click.option("--keep", is_flag=True, help="Keep what is pending at the end; otherwise it is cancelled.")
@click.option("--report", type=OutputPath(), help="Write a page with charts to this file.")
@click.option("--json", "json_file", type=OutputPath(), help="Write the figures to this file.")
def command(
    *,
    url: str,
    stages: tuple[LoadStage, ...],
    thresholds: tuple[Threshold, ...],
    moves: float,
    cancels: float,
    due_within: float,
    target: str,
    handler: str,
    payload: int,
    connections: int,
    token: str | None,
    seed: int,
    keep: bool,
    report: Path | None,
    json_file: Path | None,
) -> None:
    """
    Set, move and cancel jobs of the service at URL, in stages of a fixed rate.

    Requests are sent on schedule, even if earlier ones are unanswered. Latencies count from the scheduled instant.
    """
    if moves + cancels > 1:
        raise Refused(ExitCode.USAGE, f"--moves {moves:g} and --cancels {cancels:g} are more than all: lower one")
    if not 0 < due_within < math.inf:
        raise Refused(ExitCode.USAGE, f"--due-within is {due_within:g} s: pass a positive, finite duration")
    mix = Mix(moves, cancels, due_within, target, handler, payload, seed)
    client = Client(url, token=token, connections=connections)
    interrupted = threading.Event()
    run = _run(client, stages, mix, keep=keep, has_enough=interrupted.is_set)
    try:
        result = run_interruptible(run, interrupted.set)
    except LoadError as error:
        code = ExitCode.NO_ACCESS if error.status in _NO_ACCESS else ExitCode.NO_ANSWER
        raise Refused(code, str(error)) from None
    found = misses(thresholds, result.stages)
    if json_file is not None:
        json_file.write_text(result.as_json() + "\n", "utf-8")
    if report is not None:
        report.write_text(render_load(result, found, is_limited=bool(thresholds)), "utf-8")
    print_rows(COLUMNS, stage_rows(result.stages), right=COLUMNS[1:])
    for stage in result.stages:
        for reason, count in stage.errors.items():
            click.echo(f"{stage.rate:g} a second: {count:,} x {reason}", file=sys.stderr)
    if interrupted.is_set():
        raise KeyboardInterrupt
    if found:
        raise Refused(ExitCode.BROKEN, "\n".join(found))


async def _run(
    client: Client, stages: tuple[LoadStage, ...], mix: Mix, *, keep: bool, has_enough: Callable[[], bool]
) -> LoadResult:
    total = sum(max(1, round(stage.rate * stage.seconds)) for stage in stages)
    with progress("load", total) as advance:
        async with client:
            return await run_load(
                client, stages, mix, lambda count, _: advance(count), keep=keep, has_enough=has_enough
            )
