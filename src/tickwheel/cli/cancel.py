"""
`tickwheel cancel`: cancel a pending job, or remove a dead one.
"""

from __future__ import annotations

import click

from tickwheel.cli.options import generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("cancel")
@click.argument("key")
@generation_option
@store_option
@json_option
def command(key: str, if_generation: int | None, store: str, as_json: bool) -> None:
    """
    Cancel the pending job KEY, or remove it where it is dead.
    """
    with opened(store) as scheduler:
        print_answer(key, scheduler.cancel(key, if_generation=if_generation), as_json=as_json)
