from __future__ import annotations

import io
from collections.abc import Container, Iterable, Sequence
from typing import BinaryIO, Final

import click

from tickwheel.cli import crontab, interchange
from tickwheel.cli.apply import declare, manifest_option
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.files import STDIN, name_of, naming, text_of
from tickwheel.cli.import_schedules import import_apscheduler, import_celerybeat
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import counted, print_json, printable, progress
from tickwheel.errors import TickwheelError
from tickwheel.jobs.declaration import check_schedule
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import State
from tickwheel.scheduler import Outcome, Scheduler, SetRequest

__all__ = ["command"]

_SHOWN_MAX = 20
_BATCH = 1000
_FAR: Final = 99 * 365 * 86_400.0
"""A delay of 99 years, in seconds. It is nearly the maximum delay of a job."""


@click.group("import")
def command() -> None:
    """
    Set many jobs from a file, or from another scheduler.
    """


command.add_command(import_apscheduler)
command.add_command(import_celerybeat)


@command.command("crontab")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--prefix",
    help="What the keys begin with; a name made of the command follows.  "
    "[default: the file's name and a slash, or crontab/]",
)
@click.option("--target", default="log", show_default=True, help="Target of the jobs.")
@click.option("--handler", metavar="NAME", help="Handler of that target; the payload has the command.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="The zone of lines without CRON_TZ.")
@click.option("--system", is_flag=True, help="A user's name precedes each command, as in the system's crontab.")
@click.option("--seconds", is_flag=True, help="Each line has six fields, the first of which is the second.")
@click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be read, instead of importing nothing.")
@manifest_option
@store_option
@json_option
def import_crontab(
    *,
    file: BinaryIO,
    prefix: str | None,
    target: str,
    handler: str | None,
    tz: str,
    system: bool,
    seconds: bool,
    skip_bad: bool,
    manifest: str | None,
    store: str,
    as_json: bool,
) -> None:
    """
    Set a recurring job for each line of the crontab FILE (- reads stdin).

    A job's key consists of the file's name and the command. So importing the file again replaces the jobs of its lines,
    even if the lines have moved. Jobs whose lines are gone are listed, and continue until you cancel them; with
    --manifest, they are cancelled. A command is not run by a shell: it becomes the payload {"command": ...} of the job,
    with the "stdin", "user" and "env" that cron would give it.
    """
    found = list(crontab.parse(text_of(file).split("\n"), has_user=system, tz=tz, has_seconds=seconds))
    bad = [entry for entry in found if isinstance(entry, crontab.BadLine)]
    _report(bad, is_fatal=not skip_bad)
    remarks = [entry for entry in found if isinstance(entry, crontab.Remark)]
    for remark in remarks:
        click.echo(printable(f"line {remark.line}: {remark.text}"), err=True)
    stem = f"{_stem_of(file)}/" if prefix is None else prefix
    entries = crontab.keyed((entry for entry in found if isinstance(entry, crontab.CrontabLine)), stem)
    requests = [
        (
            entry.line,
            SetRequest(key, cron=entry.cron, tz=entry.tz, target=target, handler=handler, payload=entry.payload),
        )
        for key, entry in entries
    ]
    if manifest is not None:
        declare([request for _, request in requests], manifest, store, as_json=as_json)
        return
    _set_all(requests, store)
    earlier = _earlier(stem, {request.key for _, request in requests}, store)
    for key in map(printable, earlier):
        click.echo(f"{key} is from an earlier import, and still fires: tickwheel cancel {key}", err=True)
    left_out = len(bad) + sum(remark.is_left_out for remark in remarks)
    _print_counts(len(requests), left_out, as_json=as_json, earlier=len(earlier))


@command.command("jsonl")
@click.argument("file", type=click.File("rb"))
@manifest_option
@store_option
@json_option
def import_jsonl(file: BinaryIO, manifest: str | None, store: str, as_json: bool) -> None:
    """
    Set a job for each line of FILE (- reads stdin): a JSON document with the job's key and its other fields.
    """
    _import_lines(interchange.json_lines(text_of(file).split("\n")), store, manifest, as_json=as_json)


@command.command("csv")
@click.argument("file", type=click.File("rb"))
@manifest_option
@store_option
@json_option
def import_csv(file: BinaryIO, manifest: str | None, store: str, as_json: bool) -> None:
    """
    Set a job for each line of the table FILE (- reads stdin), whose first line names the columns.

    The columns are the key, the other fields of a job, and attempts, the maximum number of attempts. The retry column
    is JSON. The payload column is JSON, or plain text if it is not valid JSON.
    """
    lines = interchange.csv_lines(io.StringIO(text_of(file), newline=""))
    _import_lines(lines, store, manifest, as_json=as_json, has_columns=True)


def _import_lines(
    lines: Iterable[interchange.Line], store: str, manifest: str | None, *, as_json: bool, has_columns: bool = False
) -> None:
    found, seen = [], dict[str, int]()
    for number, line in lines:  # read all lines before setting the first job
        with naming(number, has_columns=has_columns):
            each = interchange.imported(number, line)
            first = seen.setdefault(each.request.key, number)
            if first != number:
                raise InvalidJobError("key", each.request.key, f"line {first} has it already: give each job one line")
            if manifest is not None:
                each.check_declared()
                check_schedule(each.request, manifest)
            found.append(each)
    if manifest is not None:
        declare([each.request for each in found], manifest, store, as_json=as_json)
        return
    paused = [each for each in found if each.pause is not None and not each.is_dead]
    _set_paused(paused, store, has_columns=has_columns)
    rest = [(each.number, each.request) for each in found if each.pause is None and not each.is_dead]
    _set_all(rest, store, has_columns=has_columns)
    dead = sum(each.is_dead for each in found)
    if dead:
        remedy = "replay them where they are, or take the state out of their lines to set them"
        click.echo(f"{counted(dead, 'dead letter')} left out: {remedy}", err=True)
    _print_counts(len(rest) + len(paused), dead, as_json=as_json)


def _set_paused(lines: Sequence[interchange.Imported], store: str, *, has_columns: bool) -> None:
    """
    Set jobs that are paused from the start. A placeholder with the same key, far in the future, is paused first.
    """
    if not lines:
        return
    with opened(store, has_to_exist=False, has_targets=True) as scheduler:
        for done, each in enumerate(lines):
            request, note = each.request, each.pause or ""
            with naming(each.number, f"; {counted(done, 'job')} set before it", has_columns=has_columns):
                if scheduler.pause(request.key, note=note).outcome is not Outcome.PAUSED:
                    scheduler.set_many(
                        [SetRequest(request.key, delay=_FAR, target=request.target, handler=request.handler)]
                    )
                    scheduler.pause(request.key, note=note)
                scheduler.set_many([request])  # the job stays paused


def _set_all(requests: Sequence[tuple[int, SetRequest]], store: str, *, has_columns: bool = False) -> None:
    with (
        opened(store, has_to_exist=False, has_targets=True) as scheduler,
        progress("setting jobs", len(requests)) as advance,
    ):
        for start in range(0, len(requests), _BATCH):
            chunk = requests[start : start + _BATCH]
            try:
                scheduler.set_many([request for _, request in chunk])
            except (TickwheelError, TypeError):
                _set_each(scheduler, chunk, start, has_columns=has_columns)
            advance(len(chunk))


def _set_each(scheduler: Scheduler, chunk: Sequence[tuple[int, SetRequest]], done: int, *, has_columns: bool) -> None:
    for number, request in chunk:
        with naming(number, f"; {counted(done, 'job')} set before it", has_columns=has_columns):
            scheduler.set_many([request])
        done += 1


def _print_counts(imported: int, left_out: int, *, as_json: bool, **further: int) -> None:
    if as_json:
        print_json({"imported": imported, "left_out": left_out, **further})
    else:
        click.echo(
            f"imported {counted(imported, 'job')}" + (f", left out {counted(left_out, 'line')}" if left_out else "")
        )


def _earlier(stem: str, keys: Container[str], store: str) -> list[str]:
    with opened(store) as scheduler:
        jobs = jobs_of(scheduler, stem, recurring=True)
        found = [job.key for job in jobs if job.state is not State.DEAD and job.key not in keys]
    return [key for key in found if crontab.KEY.fullmatch(key.removeprefix(stem))]


def _stem_of(file: BinaryIO) -> str:
    name = name_of(file)
    return "crontab" if name == STDIN else name


def _report(bad: list[crontab.BadLine], *, is_fatal: bool) -> None:
    for entry in bad[:_SHOWN_MAX]:
        click.echo(printable(f"line {entry.line}: {entry.reason}"), err=True)
    if len(bad) > _SHOWN_MAX:
        click.echo(f"and {len(bad) - _SHOWN_MAX} more", err=True)
    if bad and is_fatal:
        remedy = "mend them, or leave them out with --skip-bad"
        raise Refused(ExitCode.USAGE, f"{counted(len(bad), 'line')} not read, so nothing was imported: {remedy}")
