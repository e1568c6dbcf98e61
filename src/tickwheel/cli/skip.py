from __future__ import annotations

import click

from tickwheel.cli.options import generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("skip")
@key_argument
@generation_option
@store_option
@json_option
def command(key: str, if_generation: int | None, store: str, as_json: bool) -> None:
    """
    Skip the next run of the recurring job KEY. If it was the last run, the series ends.
    """
    with opened(store) as scheduler:
        print_answer(key, scheduler.skip(key, if_generation=if_generation), as_json=as_json)
