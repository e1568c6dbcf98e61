from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click

from tickwheel.cli.bulk import filter_options
from tickwheel.cli.documents import job_document
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows
from tickwheel.cli.values import MOMENT
from tickwheel.scheduler import Job

__all__ = ["command"]

_COLUMNS = ("key", "state", "due", "target", "handler", "attempt")


@click.command("list")
@click.argument("prefix", default="")
@filter_options
@click.option(
    "--not-succeeded-since",
    type=MOMENT,
    metavar="TIME",
    help="Only recurring jobs of which no run has succeeded since then, as in 2030-01-01T09:00.",
)
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number.")
@click.option("--all", "has_all", is_flag=True, help="All jobs, whatever the limit.")
@click.option("--cursor", metavar="KEY", help="Only jobs after this key, at which an earlier list ended.")
@store_option
@json_option
def command(
    *, prefix: str, limit: int, has_all: bool, cursor: str | None, store: str, as_json: bool, **filters: Any
) -> None:
    """
    List the jobs whose key begins with PREFIX, in the order of their keys.
    """
    searched, listed, is_cut = cursor, 0, False

    def note(key: str) -> None:
        nonlocal searched
        searched = key

    def found(jobs: Iterable[Job]) -> Iterator[Job]:
        nonlocal searched, listed, is_cut
        try:
            for job in jobs:
                yield job
                searched, listed = job.key, listed + 1
        except KeyboardInterrupt:
            is_cut = True  # the search takes long: show the jobs that it has found

    with opened(store) as scheduler:
        jobs = found(islice(jobs_of(scheduler, prefix, cursor, note, **filters), None if has_all else limit))
        if as_json:
            for job in jobs:
                print_json(job_document(job))
        else:
            print_rows(_COLUMNS, map(_row, jobs), right=("attempt",))
    if is_cut:
        if searched is not None:
            click.echo(f"searched up to {searched!r}: go on with --cursor {searched!r}", err=True)
        raise click.Abort
    if listed == limit and not has_all:
        click.echo(f"there may be more: go on with --cursor {searched!r}", err=True)


def _state(job: Job) -> str:
    if job.lacks_handler or job.awaits_worker:
        return "waiting"
    return "paused" if job.is_paused else job.state.value


def _row(job: Job) -> tuple[object, ...]:
    return (
        job.key,
        _state(job),
        local_time(job.due_at),
        job.target,
        job.handler,
        f"{job.attempt}/{job.retry.attempts}",
    )
