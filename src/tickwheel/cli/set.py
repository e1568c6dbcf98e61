from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import click

from tickwheel.cli.job_options import job_options
from tickwheel.cli.options import generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer
from tickwheel.cli.values import DURATION, MOMENT, check_zone_is_used
from tickwheel.scheduler import RetryPolicy

__all__ = ["command"]


@click.command("set")
@key_argument
@click.option("--delay", type=DURATION, help="How long from now, as in 3, 10m, 2h30m.")
@click.option("--at", type=MOMENT, help="When, as in 2030-01-01T09:00; local time without --tz or an offset.")
@click.option("--now", is_flag=True, help="Run it at once if --at has passed.")
@job_options(has_defaults=True)
@click.option("--keep-payload", is_flag=True, help="Keep the payload of the job that is there, if there is one.")
@click.option(
    "--mode",
    type=click.Choice(["replace", "keep", "earliest", "restart"]),
    default="replace",
    show_default=True,
    help="What to do with a pending job of this key.",
)
@click.option("--max-wait", type=DURATION, help="With replace: do not put it off for longer than this.")
@generation_option
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context, /, *, key: str, store: str, as_json: bool, attempts: int | None, now: bool, **fields: Any
) -> None:
    """
    Set the job KEY, or replace it.

    Give --delay or --at; or --every or --cron for a recurring job.
    """
    if fields["every"] is None and fields["cron"] is None:
        check_zone_is_used(context, fields["at"], fields["until"])
        del fields["tz"]
        _check_not_past(fields["at"], now=now)
    if attempts is not None:
        fields["retry"] = replace(RetryPolicy(), attempts=attempts)
    with opened(store, has_to_exist=False, has_targets=True) as scheduler:
        print_answer(key, scheduler.set(key, **fields), as_json=as_json)


def _check_not_past(at: datetime | float | None, *, now: bool) -> None:
    """
    Refuse a past due time unless *now* is given. Up to one second in the past is allowed, because typing takes time.
    """
    if at is None or now:
        return
    late_s = time.time() - (at.timestamp() if isinstance(at, datetime) else at)
    if late_s > 1:
        message = f"--at is {timedelta(seconds=round(late_s))} ago: pass --now to run it at once, or a later time"
        raise click.UsageError(message)
