from __future__ import annotations

from typing import Any

import click

from tickwheel.cli.bulk import bulk_options, change_all, is_bulk
from tickwheel.cli.options import complete_key, generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("run")
@click.argument("key", required=False, shell_complete=complete_key)
@bulk_options
@generation_option
@store_option
@json_option
def command(key: str | None, if_generation: int | None, store: str, *, as_json: bool, **chosen: Any) -> None:
    """
    Make the pending job KEY, or all jobs that a filter selects, due now. The process that serves the store runs them.
    """
    many = is_bulk(chosen, key, if_generation)
    with opened(store) as scheduler:
        if many:
            change_all(scheduler, "run", chosen, as_json=as_json)
        else:
            print_answer(key or "", scheduler.run_now(key or "", if_generation=if_generation), as_json=as_json)
