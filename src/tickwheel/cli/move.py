from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
from tickwheel.cli.options import complete_key, generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer
from tickwheel.cli.values import DURATION, MOMENT, check_zone_is_used

__all__ = ["command"]


@click.command("move")
@click.argument("key", required=False, shell_complete=complete_key)
@click.option("--delay", type=DURATION, help="How long from now, as in 3, 10m, 2h30m.")
@click.option("--at", type=MOMENT, help="When, as in 2030-01-01T09:00; local time unless it has an offset.")
@click.option(
    "--tz", metavar="ZONE", is_eager=True, help="The zone of times without an offset, which are local otherwise."
)
@click.option("--by", "shift", type=DURATION, help="With a filter: by how much, as in 1h, or -30m for earlier.")
@click.option("--over", type=DURATION, help="With a filter: spread the jobs over this time, from --at or from now on.")
@bulk_options
@generation_option
@store_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    key: str | None,
    delay: float | None,
    at: datetime | float | None,
    shift: float | None,
    over: float | None,
    if_generation: int | None,
    store: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """
    Change the due time of the pending job KEY, or shift or spread the due times of all jobs that a filter selects.
    """
    del chosen["tz"]  # the times were read in this zone
    check_zone_is_used(context, at, chosen.get("due_from"), chosen.get("due_until"))
    many = is_bulk(chosen, key, if_generation)
    if many == (shift is None and over is None) or (many and delay is not None):
        message = "move one job by --delay or --at, and those of a filter with --by or --over"
        raise click.UsageError(message)
    if shift is not None and (over is not None or at is not None):
        other = "--at" if over is None else "--over"
        message = f"--by and {other} exclude each other: shift jobs by --by, or spread them with --over and --at"
        raise click.UsageError(message)
    with opened(store) as scheduler:
        if many:
            more = {"shift": shift} if over is None else {"over": over, "since": at}
            change_all(scheduler, "move" if over is None else "spread", chosen, as_json=as_json, **more)
            return
        answer = scheduler.move(key or "", delay=delay, at=at, if_generation=if_generation)
        print_answer(key or "", answer, as_json=as_json)
