"""
`tickwheel cancel`: cancel a pending job, remove a dead one, or cancel all under a prefix.
"""

from __future__ import annotations

import json

import click

from tickwheel.cli.options import complete_key, generation_option, json_option, opened, store_option
from tickwheel.cli.output import counted, print_answer, progress

__all__ = ["command"]


@click.command("cancel")
@click.argument("key", required=False, shell_complete=complete_key)
@click.option("--prefix", help="All pending jobs whose keys begin with this; an empty prefix means all.")
@generation_option
@store_option
@json_option
def command(key: str | None, prefix: str | None, if_generation: int | None, store: str, *, as_json: bool) -> None:
    """
    Cancel the pending job KEY, or remove it where it is dead; or cancel all pending jobs under a prefix.
    """
    if (key is None) == (prefix is None) or (prefix is not None and if_generation is not None):
        message = "name one job, or all pending ones by --prefix and without a generation"
        raise click.UsageError(message)
    with opened(store) as scheduler:
        if key is None:
            with progress("cancelling jobs", scheduler.stats()["pending"]) as advance:
                cancelled = len(scheduler.drain(prefix or "", advance))
            click.echo(json.dumps({"cancelled": cancelled}) if as_json else f"cancelled {counted(cancelled, 'job')}")
            return
        print_answer(key, scheduler.cancel(key, if_generation=if_generation), as_json=as_json)
