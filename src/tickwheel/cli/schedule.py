from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from tickwheel.calendar.zone import check_zone, zone_of
from tickwheel.cli.apply import command as apply
from tickwheel.cli.documents import instant, schedule_document
from tickwheel.cli.listing import jobs_of
from tickwheel.cli.options import exclude_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import counted, local_time, print_json, print_rows
from tickwheel.cli.values import DURATION, EVERY, MOMENT, check_zone_is_used
from tickwheel.jobs.recurring import runs_found, runs_of
from tickwheel.jobs.requests import SetRequest, trial
from tickwheel.jobs.rule_text import rule_text
from tickwheel.scheduler import Job

__all__ = ["command"]


@click.group("schedule")
def command() -> None:
    """
    List and declare recurring jobs, and preview cron lines.
    """


command.add_command(apply)


@command.command("list")
@click.argument("prefix", default="")
@click.option("--manifest", metavar="NAME", help="Only jobs of this manifest.")
@click.option("--count", type=click.IntRange(1, 100), default=3, show_default=True, help="How many runs to show.")
@store_option
@json_option
def list_schedules(prefix: str, manifest: str | None, count: int, store: str, as_json: bool) -> None:
    """
    List the recurring jobs whose key begins with PREFIX, with their next runs.
    """
    with opened(store) as scheduler:
        found = ((job, runs_found(job, count)) for job in jobs_of(scheduler, prefix, recurring=True, manifest=manifest))
        if as_json:
            for job, runs in found:
                print_json(schedule_document(job, runs))
        else:
            rows = ((job.key, _rule(job), ", ".join(map(local_time, runs))) for job, runs in found)
            print_rows(("key", "rule", "next runs"), rows)


@command.command("next")
@click.argument("line", required=False)
@click.option("--every", type=EVERY, help="Instead of LINE: the interval of the runs.")
@click.option("--time", metavar="HH:MM", help="With --every of days, weeks or months: the time of the runs.")
@click.option("--at", type=MOMENT, help="The first run of --every, or a time from which on LINE counts.")
@click.option("--day-match", type=click.Choice(["either", "both"]), help="Which of day and weekday has to match.")
@click.option(
    "--tz",
    metavar="ZONE",
    is_eager=True,
    default="UTC",
    show_default=True,
    help="The zone of LINE, --time and --exclude, and of --at and --until without an offset.",
)
@click.option("--dst-gap", type=click.Choice(["end", "skip"]), help="What to do about times that the clock skips.")
@click.option(
    "--dst-overlap",
    type=click.Choice(["first", "second", "both"]),
    help="What to do about times that the clock shows twice.",
)
@exclude_option
@click.option("--until", type=MOMENT, help="After this no run is due, as in 2030-01-01T09:00.")
@click.option("--max-runs", type=int, metavar="N", help="How many runs there are.")
@click.option("--count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many runs to show.")
@click.option("--key", default="", help="With --jitter: the key whose share of it is added.")
@click.option("--jitter", type=DURATION, default=0.0, help="Spread the runs of different keys over this time.")
def next_runs(line: str | None, count: int, key: str, **fields: Any) -> None:
    """
    Show the next runs of the cron line LINE, or of --every, in the zone of --tz. Nothing is stored.
    """
    if line is None and fields["every"] is None:
        message = "give a cron line, as in '0 9 * * MON-FRI', or --every"
        raise click.UsageError(message)
    job = trial(SetRequest(key or "-", cron=line, **fields), int(time.time() * 1000))
    zone = zone_of(check_zone(json.loads(job.recurrence or "{}").get("tz", fields["tz"])))
    for run in runs_of(job, count):
        click.echo(local_time(run, zone))


@command.command("backfill")
@key_argument
@click.option("--since", type=MOMENT, required=True, help="The first instant of the range, as in 2029-12-01T00:00.")
@click.option("--until", type=MOMENT, required=True, help="The first after it; at most when the next run is due.")
@click.option(
    "--tz", metavar="ZONE", is_eager=True, help="The zone of times without an offset, which are local otherwise."
)
@click.option("--rate", type=float, metavar="N", help="Set N runs a second; by default all now.")
@click.option("--limit", type=int, default=1_000, show_default=True, help="How many runs at most.")
@click.option("--dry-run", is_flag=True, help="Count the runs, and set none.")
@store_option
@json_option
@click.pass_context
def backfill(context: click.Context, /, *, key: str, store: str, as_json: bool, dry_run: bool, **asked: Any) -> None:
    """
    Run the recurring job KEY again for each of its instants in a past range.

    Each run is a separate job, whose key is KEY, an @, and the instant.
    """
    del asked["tz"]  # the times were read in this zone
    check_zone_is_used(context, asked["since"], asked["until"])
    with opened(store) as scheduler:
        answer = scheduler.backfill(key, dry_run=dry_run, **asked)
    next_at = None if answer.next_at is None else instant(round(answer.next_at * 1000))
    if as_json:
        print_json(asdict(answer) | {"next_at": next_at})
        return
    click.echo(f"{counted(answer.runs, 'run')}, {counted(answer.created, 'job')} set")
    if next_at is not None:
        click.echo(f"go on with --since {next_at}")


def _rule(job: Job) -> str:
    rule = rule_text(job.recurrence or "{}", local_time)
    return rule if job.pause is None else f"{rule}, paused"
