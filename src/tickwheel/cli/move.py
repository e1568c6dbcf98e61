"""
`tickwheel move`: give a pending job another instant.
"""

from __future__ import annotations

from datetime import datetime

import click

from tickwheel.cli.options import generation_option, json_option, key_argument, opened, store_option
from tickwheel.cli.output import print_answer
from tickwheel.cli.values import DURATION, MOMENT

__all__ = ["command"]


@click.command("move")
@key_argument
@click.option("--delay", type=DURATION, help="How long from now, as in 3, 10m, 2h30m.")
@click.option("--at", type=MOMENT, help="When, as in 2030-01-01T09:00; local time unless it has an offset.")
@generation_option
@store_option
@json_option
def command(
    *, key: str, delay: float | None, at: datetime | float | None, if_generation: int | None, store: str, as_json: bool
) -> None:
    """
    Give the pending job KEY another instant.
    """
    with opened(store) as scheduler:
        answer = scheduler.move(key, delay=delay, at=at, if_generation=if_generation)
        print_answer(key, answer, as_json=as_json)
