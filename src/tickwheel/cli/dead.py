"""
`tickwheel dead`: jobs whose attempts are used up, with their errors.
"""

from __future__ import annotations

from itertools import islice

import click

from tickwheel.cli.documents import job_document
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import complete_key, json_option, opened, store_option
from tickwheel.cli.output import counted, local_time, print_json, print_rows
from tickwheel.scheduler import Outcome

__all__ = ["command"]


@click.group("dead")
def command() -> None:
    """
    Look at dead letters, and replay them.
    """


@command.command("list")
@click.argument("prefix", default="")
@click.option("--limit", type=click.IntRange(min=1), help="How many at most; all, if it is not given.")
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


@command.command("replay")
@click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=complete_key)
@click.option("--prefix", help="All that begin with this; an empty prefix means all.")
@store_option
def replay_dead(keys: tuple[str, ...], prefix: str | None, store: str) -> None:
    """
    Make dead jobs pending again, due now, with all their attempts.
    """
    if bool(keys) == (prefix is not None):
        message = "name the jobs, or all of them by --prefix"
        raise click.UsageError(message)
    with opened(store) as scheduler:
        wanted = keys if prefix is None else [job.key for job in jobs_of(scheduler, prefix, state="dead")]
        answers = scheduler.replay_many(wanted)
    missing = [key for key, answer in zip(wanted, answers, strict=True) if answer.outcome is not Outcome.REPLAYED]
    click.echo(f"replayed {counted(len(answers) - len(missing), 'job')}")
    if missing:
        raise Refused(
            ExitCode.NOT_FOUND,
            f"{counted(len(missing), 'job')} of these not dead, {missing[0]!r} first: see 'dead list'",
        )
