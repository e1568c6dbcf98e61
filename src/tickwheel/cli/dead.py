from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
from tickwheel.cli.documents import incident_document, job_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import complete_key, json_option, opened, store_option
from tickwheel.cli.output import counted, local_time, print_answer, print_json, print_rows
from tickwheel.cli.values import DURATION
from tickwheel.scheduler import Incident, Outcome, Scheduler

__all__ = ["command"]

_COLUMNS = ("fingerprint", "letters", "first due", "last due", "went to", "raised in", "error")
_PLACES = 3


@click.group("dead")
def command() -> None:
    """
    Show dead letters, and replay them.
    """


@command.command("list")
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number; by default all.")
@store_option
@json_option
def list_dead(prefix: str, limit: int | None, store: str, as_json: bool) -> None:
    """
    List the dead jobs whose key begins with PREFIX, with their last error.
    """
    with opened(store) as scheduler:
        jobs = islice(jobs_of(scheduler, prefix, state="dead"), limit)
        if as_json:
            for job in jobs:
                print_json(job_document(job))
        else:
            rows = ((job.key, local_time(job.due_at), job.attempt, job.error or "") for job in jobs)
            print_rows(("key", "was due", "attempts", "error"), rows, right=("attempts",))


@command.command("incidents")
@click.argument("search", default="")
@store_option
@json_option
def list_incidents(search: str, store: str, as_json: bool) -> None:
    """
    List dead letters by cause, one line for each.

    Letters have the same cause if the same line of code raised the same error, apart from numbers and ids. With SEARCH,
    only letters that contain SEARCH in their key, error, target, handler or function are listed. The latest 10,000
    letters are examined.
    """
    with opened(store) as scheduler:
        found = scheduler.incidents(search)
    if as_json:
        for incident in found.incidents:
            print_json(incident_document(incident))
    else:
        print_rows(_COLUMNS, map(_row, found.incidents), right=("letters",))
    if not found.is_all:
        click.echo(f"these are the latest {found.looked_at} dead letters; there are more", err=True)


@command.command("replay")
@click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=complete_key)
@click.option("--incident", metavar="FINGERPRINT", help="All of this incident: see 'dead incidents'.")
@click.option("--rate", type=float, metavar="N", help="Replay N jobs a second; by default all at once.")
@click.option("--over", type=DURATION, help="With a filter: spread the jobs over this time from now on, as in 10m.")
@bulk_options
@store_option
@json_option
def replay_dead(
    *,
    keys: tuple[str, ...],
    incident: str | None,
    rate: float | None,
    over: float | None,
    store: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """
    Make dead jobs pending again, due now, with all their attempts: the jobs KEY, or all that a filter selects.

    With --limit, at most that many letters are replayed. With --incident, the latest letters are replayed first.
    """
    limit = chosen.pop("limit")
    many = is_bulk(chosen, *keys, incident)
    if (keys and incident) or (over is not None and (rate is not None or not many)) or (rate is not None and many):
        message = "name the jobs, or one --incident, with --rate; or choose them by a filter, with --over"
        raise click.UsageError(message)
    with opened(store) as scheduler:
        if many:
            change_all(scheduler, "replay", chosen, as_json=as_json, over=over, limit=limit)
            return
        wanted: Sequence[str] = _keys_of(scheduler, incident) if incident is not None else keys
        wanted = wanted[:limit]
        answers = scheduler.replay_many(wanted, rate=rate)
    missing = []
    for key, answer in zip(wanted, answers, strict=True):
        if answer.outcome is not Outcome.REPLAYED:
            missing.append(key)
        elif as_json:
            print_answer(key, answer, as_json=True)
    if not as_json:
        click.echo(f"replayed {counted(len(answers) - len(missing), 'job')}")
    if missing:
        raise Refused(
            ExitCode.NOT_FOUND,
            f"{counted(len(missing), 'job')} of these not dead, such as {missing[0]!r}: see 'dead list'",
        )


def _keys_of(scheduler: Scheduler, fingerprint: str) -> Sequence[str]:
    for incident in scheduler.incidents().incidents:
        if incident.fingerprint == fingerprint:
            return incident.keys
    message = f"no incident has the fingerprint {fingerprint!r}: see 'dead incidents'"
    raise Refused(ExitCode.NOT_FOUND, message)


def _row(incident: Incident) -> tuple[object, ...]:
    places = ", ".join(f"{target} {handler}".rstrip() for target, handler, _ in incident.places[:_PLACES])
    more = f", and {len(incident.places) - _PLACES} more" if len(incident.places) > _PLACES else ""
    first, last = local_time(incident.first_at), local_time(incident.last_at)
    return incident.fingerprint, incident.count, first, last, places + more, incident.raised_in or "", incident.error
