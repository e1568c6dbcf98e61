"""
`tickwheel pause`: keep a pending job from being due.
"""

from __future__ import annotations

import click

from tickwheel.cli.options import generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("pause")
@click.argument("key")
@click.option("--note", default="", help="Why, for those who will wonder.")
@generation_option
@store_option
@json_option
def command(key: str, note: str, if_generation: int | None, store: str, as_json: bool) -> None:
    """
    Keep the pending job KEY from being due until it is resumed; one that recurs, also while it runs.
    """
    with opened(store) as scheduler:
        print_answer(key, scheduler.pause(key, note=note, if_generation=if_generation), as_json=as_json)
