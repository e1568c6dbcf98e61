"""
`tickwheel change`: change some of a job, and leave the rest as it is.
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


@click.command("change")
@key_argument
@click.option("--payload", type=JSON, help="What the target gets; - reads it from stdin.")
@click.option("--target", help="Where it goes.")
@click.option("--handler", metavar="NAME", help="Which one: the handler's name, the webhook's address.")
@click.option("--attempts", type=int, metavar="N", help="How often it is tried at most, with the usual waits.")
@click.option("--expires", type=DURATION, help="Do not fire it when it is later than this.")
@click.option("--every", type=DURATION, help="Run at this interval, first one interval from now.")
@click.option("--cron", metavar="LINE", help="Run by the calendar, as in '0 9 * * MON-FRI'.")
@click.option("--tz", metavar="ZONE", help="The zone of --cron and --exclude.")
@exclude_option
@click.option("--misfire", type=click.Choice(["once", "all", "skip"]), help="What to do about runs that were missed.")
@click.option("--misfire-grace", type=DURATION, help="With skip: how late a run may begin.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "once", "all", "cancel"]),
    help="What to do about runs that are due while one lasts.",
)
@click.option("--until", type=MOMENT, help="After this no run is due, as in 2030-01-01T09:00.")
@click.option("--max-runs", type=int, metavar="N", help="How many runs there are from now on.")
@click.option("--jitter", type=DURATION, help="Spread the runs of different keys over this time.")
@generation_option
@store_option
@json_option
@click.pass_context
def command(context: click.Context, /, key: str, store: str, as_json: bool, **fields: Any) -> None:
    """
    Change what is given of the pending job KEY, and leave the rest as it is.

    It is due when it was, unless --every, --cron, --tz or --exclude is given.
    """
    usual = click.core.ParameterSource.DEFAULT
    given = {name: value for name, value in fields.items() if context.get_parameter_source(name) is not usual}
    if "attempts" in given:
        given["retry"] = replace(RetryPolicy(), attempts=given.pop("attempts"))
    with opened(store, has_targets=True) as scheduler:
        print_answer(key, scheduler.change(key, **given), as_json=as_json)
