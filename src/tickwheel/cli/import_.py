"""
`tickwheel import`: set many jobs from a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from tickwheel.cli import crontab
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.options import json_option, opened, store_option
from tickwheel.cli.output import print_json, printable
from tickwheel.scheduler import SetRequest

__all__ = ["command"]

_SHOWN_MAX = 20
_BATCH = 1000


@click.group("import")
def command() -> None:
    """
    Set many jobs from a file.
    """


@command.command("crontab")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option(
    "--prefix", help="What the keys begin with; the line's number follows.  [default: the file's name and a slash]"
)
@click.option("--target", default="log", show_default=True, help="Where the jobs go.")
@click.option("--handler", metavar="NAME", help="Which handler of that target; its payload is the command.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="The zone of lines without CRON_TZ.")
@click.option("--system", is_flag=True, help="A user's name stands before each command, as in the system's crontab.")
@click.option("--skip-bad", is_flag=True, help="Leave out lines that cannot be read, instead of importing nothing.")
@store_option
@json_option
def import_crontab(
    *,
    file: TextIO,
    prefix: str | None,
    target: str,
    handler: str | None,
    tz: str,
    system: bool,
    skip_bad: bool,
    store: str,
    as_json: bool,
) -> None:
    """
    Set a recurring job for each line of the crontab FILE (- reads stdin).

    A job's key is made of the file's name and the line's number, so importing the file again replaces its jobs.
    A command is not run by a shell: it becomes the payload {"command": ...} of the job.
    """
    found = list(crontab.parse(_lines(file), has_user=system, tz=tz))
    bad = [entry for entry in found if isinstance(entry, crontab.BadLine)]
    _report(bad, is_fatal=not skip_bad)
    stem = f"{Path(file.name).name}/" if prefix is None else prefix
    requests = [
        SetRequest(
            f"{stem}{entry.line}",
            cron=entry.cron,
            tz=entry.tz,
            target=target,
            handler=handler,
            payload={"command": entry.command} | ({"user": entry.user} if entry.user else {}),
        )
        for entry in found
        if isinstance(entry, crontab.Entry)
    ]
    with opened(store, has_to_exist=False) as scheduler:
        for start in range(0, len(requests), _BATCH):
            scheduler.set_many(requests[start : start + _BATCH])
    if as_json:
        print_json({"imported": len(requests), "left_out": len(bad)})
    else:
        click.echo(f"imported {len(requests)} jobs" + (f", left out {len(bad)} lines" if bad else ""))


def _lines(file: TextIO) -> list[str]:
    try:
        return file.read().splitlines()
    except UnicodeDecodeError as error:
        raise Refused(ExitCode.USAGE, f"{file.name!r} is no text in UTF-8 ({error.reason}): convert it first") from None


def _report(bad: list[crontab.BadLine], *, is_fatal: bool) -> None:
    for entry in bad[:_SHOWN_MAX]:
        click.echo(printable(f"line {entry.line}: {entry.reason}"), err=True)
    if len(bad) > _SHOWN_MAX:
        click.echo(f"and {len(bad) - _SHOWN_MAX} more", err=True)
    if bad and is_fatal:
        remedy = "mend them, or leave them out with --skip-bad"
        raise Refused(ExitCode.USAGE, f"{len(bad)} lines cannot be read, so nothing was imported: {remedy}")
