"""
`tickwheel run`: run a pending job now.
"""

from __future__ import annotations

import click

from tickwheel.cli.options import generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("run")
@key_argument
@generation_option
@store_option
@json_option
def command(key: str, if_generation: int | None, store: str, as_json: bool) -> None:
    """
    Move the pending job KEY to now; the process that serves the store runs it.
    """
    with opened(store) as scheduler:
        print_answer(key, scheduler.run_now(key, if_generation=if_generation), as_json=as_json)
