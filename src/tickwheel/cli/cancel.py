from __future__ import annotations

from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
from tickwheel.cli.options import complete_key, generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("cancel")
@click.argument("key", required=False, shell_complete=complete_key)
@bulk_options
@generation_option
@click.option("--running", is_flag=True, help="Ask running jobs to stop.")
@store_option
@json_option
def command(
    key: str | None, if_generation: int | None, store: str, *, running: bool, as_json: bool, **chosen: Any
) -> None:
    """
    Cancel the pending job KEY, or remove it if it is dead; or cancel all jobs that a filter selects.

    With --running, running jobs are asked to stop.
    """
    many = is_bulk(chosen, key, if_generation)
    with opened(store) as scheduler:
        if many:
            change_all(scheduler, "cancel", chosen, as_json=as_json, running=running)
        else:
            answer = scheduler.cancel(key or "", running=running, if_generation=if_generation)
            print_answer(key or "", answer, as_json=as_json)
