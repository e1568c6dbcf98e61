"""
`tickwheel resume`: end the pause of a job.
"""

from __future__ import annotations

import click

from tickwheel.cli.options import generation_option, json_option, opened, store_option
from tickwheel.cli.output import print_answer

__all__ = ["command"]


@click.command("resume")
@click.argument("key")
@generation_option
@store_option
@json_option
def command(key: str, if_generation: int | None, store: str, as_json: bool) -> None:
    """
    End the pause of the job KEY, which is due at its instant again, or at once if that has passed.
    """
    with opened(store) as scheduler:
        print_answer(key, scheduler.resume(key, if_generation=if_generation), as_json=as_json)
