"""
`tickwheel list`: list jobs.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import click

from tickwheel.cli.bulk import filter_options
from tickwheel.cli.documents import job_document
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import local_time, print_json, print_rows
from tickwheel.scheduler import Job

__all__ = ["command"]

_COLUMNS = ("key", "state", "due", "target", "handler", "attempt")


@click.command("list")
@click.argument("prefix", default="")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="How many at most.")
@click.option("--all", "has_all", is_flag=True, help="All of them, whatever the limit.")
@store_option
@json_option
def command(*, prefix: str, limit: int, has_all: bool, store: str, as_json: bool, **filters: Any) -> None:
    """
    List the jobs whose key begins with PREFIX, in the order of their keys.
    """
    with opened(store) as scheduler:
        jobs = islice(jobs_of(scheduler, prefix, **filters), None if has_all else limit)
        if as_json:
            for job in jobs:
                print_json(job_document(job))
        else:
            print_rows(_COLUMNS, map(_row, jobs), right=("attempt",))


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
