"""
`tickwheel set`: set a job, or replace it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tickwheel.cli.options import exclude_option, generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer
from tickwheel.cli.values import DURATION, JSON, MOMENT
from tickwheel.scheduler import RetryPolicy

__all__ = ["command"]


@click.command("set")
@key_argument
@click.option("--delay", type=DURATION, help="How long from now, as in 3, 10m, 2h30m.")
@click.option("--at", type=MOMENT, help="When, as in 2030-01-01T09:00; local time unless it has an offset.")
@click.option("--every", type=DURATION, help="Run at this interval, in a fixed phase.")
@click.option("--cron", metavar="LINE", help="Run by the calendar, as in '0 9 * * MON-FRI'.")
@click.option("--tz", metavar="ZONE", default="UTC", show_default=True, help="The zone of --cron and --exclude.")
@exclude_option
@click.option(
    "--misfire",
    type=click.Choice(["once", "all", "skip"]),
    default="once",
    show_default=True,
    help="What to do about runs that were missed.",
)
@click.option("--misfire-grace", type=DURATION, help="With skip: how late a run may begin; by default 1m.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "once", "all", "cancel"]),
    help="What to do about runs that are due while one lasts: by default skip, and with --misfire all, all.",
)
@click.option("--until", type=MOMENT, help="After this no run is due, as in 2030-01-01T09:00.")
@click.option("--max-runs", type=int, metavar="N", help="How many runs there are; after the last one the job is gone.")
@click.option("--jitter", type=DURATION, default=0.0, help="Spread the runs of different keys over this time.")
@click.option("--payload", type=JSON, help="What the target gets; - reads it from stdin.")
@click.option("--keep-payload", is_flag=True, help="Keep the payload of the job that is there, if there is one.")
@click.option(
    "--target",
    default="handler",
    show_default=True,
    help="Where it goes: handler, webhook, log, pull, or NAME of a TICKWHEEL_TARGET_NAME.",
)
@click.option("--handler", metavar="NAME", help="Which one: the handler's name, the webhook's address.")
@click.option("--attempts", type=int, metavar="N", help="How often it is tried at most.")
@click.option("--expires", type=DURATION, help="Do not fire it when it is later than this.")
@click.option(
    "--mode",
    type=click.Choice(["replace", "keep", "earliest"]),
    default="replace",
    show_default=True,
    help="What to do with a pending job of this key.",
)
@click.option("--max-wait", type=DURATION, help="With replace: do not put it off for longer than this.")
@generation_option
@store_option
@json_option
def command(key: str, store: str, as_json: bool, attempts: int | None, **fields: Any) -> None:
    """
    Set the job KEY, or replace it.

    Give --delay or --at; or --every or --cron for a recurring job.
    """
    if attempts is not None:
        fields["retry"] = replace(RetryPolicy(), attempts=attempts)
    with opened(store, has_to_exist=False, has_targets=True) as scheduler:
        print_answer(key, scheduler.set(key, **fields), as_json=as_json)
