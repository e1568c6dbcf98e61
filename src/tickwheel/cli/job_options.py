from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tickwheel.cli.options import exclude_option, with_options
from tickwheel.cli.values import DURATION, EVERY, JSON, MOMENT

__all__ = ["job_options"]

F = TypeVar("F", bound=Callable[..., Any])


def job_options(*, has_defaults: bool) -> Callable[[F], F]:
    def usual(value: object) -> dict[str, Any]:
        return {"default": value, "show_default": True} if has_defaults else {}

    options = [
        click.option("--every", type=EVERY, help="Run at this interval, in a fixed phase."),
        click.option(
            "--time",
            metavar="HH:MM",
            help="With --every 3d, 2w, '1 month' and the like: run at this time of the day, in the zone of --tz.",
        ),
        click.option("--cron", metavar="LINE", help="Run by the calendar, as in '0 9 * * MON-FRI'."),
        click.option(
            "--day-match",
            type=click.Choice(["either", "both"]),
            help="Which of day and weekday has to match, where --cron restricts both.  [default: either]",
        ),
        click.option(
            "--tz",
            metavar="ZONE",
            is_eager=True,  # read before the times, which are in this zone
            help="The zone of --cron, --time and --exclude, or 'local'; and of times without an offset (else local).",
            **usual("UTC"),
        ),
        click.option(
            "--dst-gap",
            type=click.Choice(["end", "skip"]),
            help="What to do about times that the clock skips in spring.  [default: as cron does]",
        ),
        click.option(
            "--dst-overlap",
            type=click.Choice(["first", "second", "both"]),
            help="What to do about times that the clock shows twice in autumn.  [default: as cron does]",
        ),
        exclude_option,
        click.option(
            "--misfire",
            type=click.Choice(["once", "all", "skip"]),
            help="What to do about runs that were missed.",
            **usual("once"),
        ),
        click.option("--misfire-grace", type=DURATION, help="With skip: how late a run may begin; 1m in a new rule."),
        click.option(
            "--overlap",
            type=click.Choice(["skip", "once", "all", "cancel"]),
            help="What to do about runs that are due while one lasts.  [default: skip; all with --misfire all]",
        ),
        click.option("--until", type=MOMENT, help="After this no run is due, as in 2030-01-01T09:00."),
        click.option(
            "--max-runs", type=int, metavar="N", help="How many runs there are; after the last one the job is gone."
        ),
        click.option(
            "--pause-after", type=int, metavar="N", help="Pause the job once this number of runs in a row have failed."
        ),
        click.option("--jitter", type=DURATION, help="Spread the runs of different keys over this time.", **usual(0.0)),
        click.option("--payload", type=JSON, help="What the target gets; - reads it from stdin."),
        click.option(
            "--target",
            help="Where it goes: handler, webhook, log, pull, or NAME of a TICKWHEEL_TARGET_NAME.",
            **usual("handler"),
        ),
        click.option("--handler", metavar="NAME", help="Name of the handler, or address of the webhook."),
        click.option("--attempts", type=int, metavar="N", help="Maximum number of attempts, with the usual waits."),
        click.option("--expires", type=DURATION, help="Do not fire it when it is later than this."),
    ]

    return lambda function: with_options(options, function)
