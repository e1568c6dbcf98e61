"""
`tickwheel lab`: the commands of the laboratory for timing wheels.
"""

from __future__ import annotations

import click

from tickwheel.cli._lazy import LazyGroup

__all__ = ["command"]


class _LabCommands(LazyGroup):
    modules = {name: f"tickwheel.cli.lab.{name}" for name in ("replay", "compare", "tune", "generate", "watch")}  # noqa: RUF012 click's groups are made once


@click.group("lab", cls=_LabCommands)
def command() -> None:
    """
    Replay, compare, tune and watch timing wheels on traces of timers.
    """
