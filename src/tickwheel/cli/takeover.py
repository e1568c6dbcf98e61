from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click

from tickwheel.cli import apply
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import counted, print_json, printable
from tickwheel.cli.pickles import foreign_in
from tickwheel.errors import TickwheelError
from tickwheel.jobs.requests import trial
from tickwheel.scheduler import Declared, Job, Outcome, Scheduler, SetRequest

__all__ = [
    "CannotTakeOverError",
    "Found",
    "Notes",
    "checked",
    "next_on_grid",
    "options",
    "readable",
    "start_of_calendar",
    "start_of_interval",
    "take_over",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_BATCH: Final = 1000


class CannotTakeOverError(ValueError):
    """
    The schedule has no counterpart in tickwheel. The message has the reason.
    """


@dataclass(slots=True)
class Notes:
    """
    Notes on one imported schedule. *remarks* lists the changes. *next_at* is the first due time, if known.
    """

    remarks: list[str] = field(default_factory=list)
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """
    A schedule found in the scheduler from which jobs are imported.

    *remarks* lists the changes that the import makes. If *request* is None, the schedule cannot be imported, and
    *remarks* has the reason. *next_at* is the first due time of the new job; None if the rule determines it.
    """

    name: str
    request: SetRequest | None
    remarks: tuple[str, ...] = ()
    next_at: datetime | None = None


def options(function: _F) -> _F:
    for add in (
        json_option,
        store_option,
        apply.manifest_option,
        click.option(
            "--skip-bad", is_flag=True, help="Leave out what cannot be taken over, instead of importing nothing."
        ),
        click.option("--dry-run", is_flag=True, help="Report, and import nothing."),
        click.option("--prefix", default="", metavar="TEXT", help="What the keys begin with; the names follow."),
    ):
        function = add(function)
    return function


def checked(name: str, make: Callable[[Notes], SetRequest]) -> Found:
    notes = Notes()
    try:
        request = make(notes)
        trial(request, int(time.time() * 1000))
    except (TickwheelError, ValueError, TypeError, OverflowError) as error:
        return Found(name, None, (str(error),))
    return Found(name, request, tuple(notes.remarks), notes.next_at)


def readable(payload: dict[str, Any]) -> dict[str, Any]:
    strangers = sorted(set(foreign_in(payload)))
    if strangers:
        reason = f"its arguments hold a {strangers[0]}, which JSON cannot carry: pass its id instead"
        raise CannotTakeOverError(reason)
    return payload


def next_on_grid(start: datetime, every: timedelta) -> datetime:
    """
    Return the first instant that is not in the past, counting from *start* in steps of *every*. The result is in UTC.
    """
    start, now = start.astimezone(UTC), datetime.now(UTC)  # in UTC every day has 24 hours
    if start >= now or not every:
        return start
    return start + every * -((start - now) // every)


def start_of_interval(due: datetime, every: timedelta, grace: timedelta | None) -> datetime:
    """
    Return the start of a series: *due*, or, if *due* is late by more than *grace*, its next instant in the future.
    """
    late = datetime.now(UTC) - due.astimezone(UTC)
    return due if grace is None or late <= grace else next_on_grid(due, every)


def start_of_calendar(due: datetime, grace: timedelta | None, spread: timedelta, notes: Notes) -> datetime | None:
    """
    Return the start of a calendar rule whose next run is *due*, or None to start now.

    *grace* (None: no limit) and *spread* are the maximum lateness and the maximum jitter of a run in the scheduler from
    which the rule is imported. *notes* gets the time of the next run, if it is certain.
    """
    late = datetime.now(UTC) - due.astimezone(UTC)
    if late < timedelta():
        notes.next_at = None if spread else due
        return due - spread
    if grace is None or late <= grace:
        notes.next_at = due
    return None


def take_over(
    found: Iterable[Found],
    *,
    prefix: str,
    dry_run: bool,
    skip_bad: bool,
    store: str,
    as_json: bool,
    manifest: str | None = None,
) -> None:
    """
    Set the schedules that can be imported, and print why the rest cannot.

    With a *manifest*, recurring jobs are declared under that name, and one-time jobs are set as usual. If a schedule
    cannot be imported and *skip_bad* is False, no job is set and `Refused` is raised.
    """
    schedules = list(found)
    wanted = [each.request for each in schedules if each.request is not None]
    moves = [each.next_at for each in schedules if each.request is not None]
    left_out = len(schedules) - len(wanted)
    for each in schedules:
        for remark in each.remarks:
            begin = "left out" if each.request is None else "differs"
            click.echo(printable(f"{begin}: {each.name}: {remark}"), err=True)
    if left_out and not skip_bad and not dry_run:
        remedy = "change it there, or leave it out with --skip-bad"
        message = f"{counted(left_out, 'schedule')} cannot be taken over, so nothing was imported: {remedy}"
        raise Refused(ExitCode.USAGE, message)
    for request in wanted:
        request.key = f"{prefix}{request.key}"
    answer = None
    if manifest is not None or not dry_run:
        with opened(store, has_to_exist=False, has_targets=True) as scheduler:
            answer = _set_all(scheduler, wanted, moves, manifest, dry_run=dry_run)
    if as_json:
        report = [
            {"name": each.name, "key": each.request and each.request.key, "remarks": list(each.remarks)}
            for each in schedules
        ]
        imported = 0 if dry_run else len(wanted)
        declared = {} if answer is None else {"declared": apply.document(answer)}
        print_json({"imported": imported, "left_out": left_out, "schedules": report} | declared)
    else:
        if answer is not None:
            apply.show(answer)
        verb = "would import" if dry_run else "imported"
        rest = f", left out {counted(left_out, 'schedule')}" if left_out else ""
        click.echo(f"{verb} {counted(len(wanted), 'job')}{rest}")


def _set_all(
    scheduler: Scheduler,
    requests: Sequence[SetRequest],
    moves: Sequence[datetime | None],
    manifest: str | None,
    *,
    dry_run: bool,
) -> Declared | None:
    first_runs = {request.key: at for request, at in zip(requests, moves, strict=True)}
    answer, rest = None, list(requests)
    if manifest is not None:
        rest = [request for request in requests if request.every is None and request.cron is None]
        recurring = [request for request in requests if request not in rest]
        answer = apply.declared(scheduler, recurring, manifest, dry_run=dry_run)
        if not dry_run:
            for one in answer.jobs:
                _move_first(scheduler, one.job, one.outcome, first_runs.get(one.key))
    if dry_run:
        return answer
    for start in range(0, len(rest), _BATCH):
        for each in scheduler.set_many(rest[start : start + _BATCH]):
            _move_first(scheduler, each.job, each.outcome, first_runs.get(each.job.key) if each.job else None)
    return answer


def _move_first(scheduler: Scheduler, job: Job | None, outcome: Outcome, at: datetime | None) -> None:
    if at is None or job is None or outcome is not Outcome.CREATED:
        return
    if job.due_at != round(at.timestamp() * 1000):
        scheduler.move(job.key, at=at, if_generation=job.generation)
