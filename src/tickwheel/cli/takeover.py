"""
Schedules of another scheduler, taken over as far as they can be, with a report of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import counted, print_json, printable
from tickwheel.cli.pickles import foreign_in
from tickwheel.errors import TickwheelError
from tickwheel.jobs.requests import trial
from tickwheel.scheduler import SetRequest

__all__ = ["CannotTakeOverError", "Found", "checked", "next_on_grid", "options", "readable", "take_over"]

_F = TypeVar("_F", bound=Callable[..., Any])
_BATCH: Final = 1000


class CannotTakeOverError(ValueError):
    """
    A schedule has no counterpart here; the message says why.
    """


@dataclass(frozen=True, slots=True)
class Found:
    """
    A schedule of the other scheduler.

    Attributes:
        name: What it is called there.
        request: What to set, or None if it cannot be taken over.
        remarks: Why not, or what will be different.
    """

    name: str
    request: SetRequest | None
    remarks: tuple[str, ...] = ()


def options(function: _F) -> _F:
    """
    Add what all imports of schedules take.
    """
    for add in (
        json_option,
        store_option,
        click.option(
            "--skip-bad", is_flag=True, help="Leave out what cannot be taken over, instead of importing nothing."
        ),
        click.option("--dry-run", is_flag=True, help="Report, and import nothing."),
        click.option("--prefix", default="", metavar="TEXT", help="What the keys begin with; the names follow."),
    ):
        function = add(function)
    return function


def checked(name: str, make: Callable[[list[str]], SetRequest]) -> Found:
    """
    Return the schedule *name*, with what *make* returns, if that could be set; *make* adds its remarks to a list.
    """
    remarks: list[str] = []
    try:
        request = make(remarks)
        trial(request, int(time.time() * 1000))
    except (TickwheelError, ValueError, TypeError, OverflowError) as error:
        return Found(name, None, (str(error),))
    return Found(name, request, tuple(remarks))


def readable(payload: dict[str, Any]) -> dict[str, Any]:
    """
    Return *payload* if it holds no object of a class that is not known here.

    Raises:
        CannotTakeOverError: Naming the class.
    """
    strangers = sorted(set(foreign_in(payload)))
    if strangers:
        reason = f"its arguments hold a {strangers[0]}, which JSON cannot carry: pass its id instead"
        raise CannotTakeOverError(reason)
    return payload


def next_on_grid(start: datetime, every: timedelta) -> datetime:
    """
    Return the first instant of a series that is not past, in UTC, so that it keeps its phase.
    """
    start, now = start.astimezone(UTC), datetime.now(UTC)  # in a zone with summer time, days are not all 24 hours
    if start >= now or not every:
        return start
    return start + every * -((start - now) // every)


def take_over(found: Iterable[Found], *, prefix: str, dry_run: bool, skip_bad: bool, store: str, as_json: bool) -> None:
    """
    Set what can be, and print what cannot.

    Raises:
        Refused: If something cannot be taken over, unless *skip_bad*; nothing is set then.
    """
    schedules = list(found)
    wanted = [each.request for each in schedules if each.request is not None]
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
    if not dry_run:
        _set_all(wanted, store)
    if as_json:
        report = [
            {"name": each.name, "key": each.request and each.request.key, "remarks": list(each.remarks)}
            for each in schedules
        ]
        imported = 0 if dry_run else len(wanted)
        print_json({"imported": imported, "left_out": left_out, "schedules": report})
    else:
        verb = "would import" if dry_run else "imported"
        rest = f", left out {counted(left_out, 'schedule')}" if left_out else ""
        click.echo(f"{verb} {counted(len(wanted), 'job')}{rest}")


def _set_all(requests: Sequence[SetRequest], store: str) -> None:
    with opened(store, has_to_exist=False, has_targets=True) as scheduler:
        for start in range(0, len(requests), _BATCH):
            scheduler.set_many(requests[start : start + _BATCH])
