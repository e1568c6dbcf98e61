from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final, TypeVar

import click

from tickwheel.cli.options import with_options
from tickwheel.cli.output import counted, print_json, progress
from tickwheel.cli.values import MOMENT
from tickwheel.scheduler import BulkAnswer, Scheduler

__all__ = ["bulk_options", "change_all", "filter_options", "is_bulk"]

F = TypeVar("F", bound=Callable[..., Any])

_FILTERS: Final = (
    click.option("--contains", metavar="TEXT", help="Only jobs whose key contains this."),
    click.option("--handler", metavar="NAME", help="Only jobs of this handler."),
    click.option("--target", metavar="NAME", help="Only jobs of this target."),
    click.option("--state", type=click.Choice(["pending", "running", "dead"]), help="Only jobs in this state."),
    click.option("--error", metavar="TEXT", help="Only jobs whose last error contains this."),
    click.option("--payload", metavar="TEXT", help="Only jobs whose payload contains this."),
    click.option("--field", metavar="NAME=VALUE", help="Only jobs whose JSON payload has this field."),
    click.option("--recurring", is_flag=True, help="Only recurring jobs."),
    click.option("--paused", is_flag=True, help="Only pending jobs that are paused."),
    click.option("--manifest", metavar="NAME", help="Only jobs of this manifest."),
    click.option("--due-from", type=MOMENT, help="Only jobs due from this time on."),
    click.option("--due-until", type=MOMENT, help="Only jobs due before this time."),
)
_BULK: Final = (
    click.option("--prefix", help="Instead of KEY, all whose keys begin with this; an empty prefix means all."),
    *_FILTERS,
    click.option("--dry-run", is_flag=True, help="Count the jobs, and change none."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of jobs to change."),
    click.option("--cursor", metavar="CURSOR", help="Continue where an earlier run stopped."),
)
_RUN: Final = ("dry_run", "limit", "cursor")
_DONE: Final = {"cancel": "cancelled", "pause": "paused", "replay": "replayed", "resume": "resumed", "run": "run now"}


def filter_options(function: F) -> F:
    return with_options(_FILTERS, function)


def bulk_options(function: F) -> F:
    return with_options(_BULK, function)


def is_bulk(chosen: dict[str, Any], *names: object) -> bool:
    given = chosen["prefix"] is not None or _has_filter(chosen)
    if given == any(name is not None for name in names):
        message = "name one job; or choose jobs by --prefix or another filter, without a generation"
        raise click.UsageError(message)
    if not given and any(chosen[name] for name in _RUN if name in chosen):
        message = "--dry-run, --limit and --cursor go with --prefix or another filter, not with what is named"
        raise click.UsageError(message)
    return given


def change_all(
    scheduler: Scheduler, verb: str, chosen: dict[str, Any], *, as_json: bool = False, **more: Any
) -> BulkAnswer:
    """
    Apply *verb* to all jobs that match the filter, and print their number. If this fails, print how to continue.
    """
    last: BulkAnswer | None = None
    prefix = chosen.pop("prefix") or ""
    if not prefix and not _has_filter(chosen):  # an empty prefix means all
        if more.get("running"):
            chosen["due_from"] = 0  # matches every job with a due time: pending and running jobs
        else:
            chosen["state"] = "dead" if verb == "replay" else "pending"
    total = sum(scheduler.stats()[name] for name in ("pending", "running", "dead"))
    with progress(f"{verb}: jobs", total) as advance:

        def note(answer: BulkAnswer) -> None:
            nonlocal last
            advance(answer.matched - (last.matched if last else 0))
            last = answer

        try:
            answer = scheduler.bulk(verb, prefix, on_progress=note, **(chosen | more))
        except BaseException:
            if last is not None and last.cursor is not None:
                click.echo(f"{counted(last.changed, 'job')} so far; go on with --cursor {last.cursor!r}", err=True)
            raise
    if as_json:
        print_json({name: value for name, value in asdict(answer).items() if name != "changes"})
    elif chosen["dry_run"]:
        stopped = " or stopped" if more.get("running") else ""
        click.echo(f"{counted(answer.matched, 'job')} to be {_DONE.get(verb, 'moved')}{stopped}")
    else:
        asked = f"; asked {counted(answer.stopping, 'job')} to stop" if answer.stopping else ""
        left = f"; {counted(answer.refused, 'job')} had begun or changed meanwhile" if answer.refused else ""
        click.echo(f"{_DONE.get(verb, 'moved')} {counted(answer.changed - answer.stopping, 'job')}{asked}{left}")
        if answer.cursor is not None:
            click.echo(f"there may be more: go on with --cursor {answer.cursor!r}", err=True)
    return answer


def _has_filter(chosen: dict[str, Any]) -> bool:
    filters = (value for name, value in chosen.items() if name not in {"prefix", *_RUN})
    return any(value is not None and value is not False for value in filters)
