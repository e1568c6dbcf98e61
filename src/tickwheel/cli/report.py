from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

import click

from tickwheel.cli.documents import instant
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows
from tickwheel.cli.values import DurationRange
from tickwheel.jobs.minutes import MINUTE_MS, LaneMinute, Minute, merged, quantile, total_of

__all__ = ["command"]

_STEPS: Final = 12
_FIGURES: Final = ("fired", "failed", "dead", "late p50", "late p99", "late max", "wait", "took", "overdue")
_COMMITS: Final = ("commits", "commit", "commit max")


@click.command("report")
@click.option(
    "--last", type=DurationRange(60.0), default=3_600.0, show_default="1h", help="How far to look back, up to 48h."
)
@store_option
@json_option
def command(*, last: float, store: str, as_json: bool) -> None:
    """
    Show firings and their lateness: over time, by node and by lane.

    The times of attempts, commits and waits for a worker are means, in ms. Figures by the minute are kept for 4 hours,
    and figures by the quarter of an hour for 48 hours.
    """
    since_ms = int((time.time() - last) * 1000)
    with opened(store) as scheduler:
        minutes = scheduler.minutes(since_ms / 1000)
    if as_json:
        for minute in minutes:
            print_json({**asdict(minute), "at": instant(minute.at)})
        return
    if not minutes:
        click.echo("nothing fired in that time, as far as it is kept", err=True)
        return
    steps = _by_step(minutes, since_ms, last)
    print_rows(
        ("from", *_FIGURES, *_COMMITS), (_row(local_time(step.at), step) for step in steps), right=_FIGURES + _COMMITS
    )
    click.echo()
    nodes = [_whole(minutes, owner) for owner in dict.fromkeys(minute.owner for minute in minutes)]
    print_rows(("node", *_FIGURES, *_COMMITS), (_row(node.owner, node) for node in nodes), right=_FIGURES + _COMMITS)
    click.echo()
    lanes = _whole(minutes, None).lanes
    print_rows(("lane", *_FIGURES), ((lane.lane, *_figures(lane)) for lane in lanes), right=_FIGURES)


def _by_step(minutes: Iterable[Minute], since_ms: int, last: float) -> list[Minute]:
    span = max(1, round(last * 1000 / _STEPS / MINUTE_MS)) * MINUTE_MS
    first = since_ms // MINUTE_MS * MINUTE_MS
    steps: dict[int, list[Minute]] = {}
    for minute in minutes:
        steps.setdefault(first + (minute.at - first) // span * span, []).append(minute)
    return [merged(each, at, span) for at, each in sorted(steps.items())]


def _whole(minutes: Iterable[Minute], owner: str | None) -> Minute:
    return merged((each for each in minutes if owner in {None, each.owner}), 0, 0, owner or "")


def _row(name: str, minute: Minute) -> tuple[object, ...]:
    mean_ms = minute.commit_ms / max(1, minute.commits)
    return (name, *_figures(total_of(minute.lanes)), minute.commits, f"{mean_ms:.1f}", f"{minute.commit_max_ms:.1f}")


def _figures(lane: LaneMinute) -> tuple[object, ...]:
    late = [quantile(lane.lateness, lane.late_max_ms, share) for share in (0.5, 0.99)]
    number = max(1, lane.fired)
    means = (f"{total / number:.1f}" for total in (lane.wait_ms, lane.took_ms))
    late_ms = (f"{each:.0f}" for each in (*late, lane.late_max_ms))
    return (lane.fired, lane.failed, lane.dead, *late_ms, *means, lane.overdue)
