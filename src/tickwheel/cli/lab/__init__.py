"""
`tickwheel lab`: traces through the designs, to compare, tune and watch them.

    replay, compare, tune, generate, watch    the commands, one a file
    options                                   what they share
"""

from __future__ import annotations

import importlib
from typing import Final

import click

__all__ = ["command"]

COMMANDS: Final = ("replay", "compare", "tune", "generate", "watch")


class _LabCommands(click.Group):
    """
    A group that imports a command when it is asked for.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """
        Return the names, in the order of the table.
        """
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """
        Import the command.
        """
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tickwheel.cli.lab.{cmd_name}")
        command: click.Command = module.command
        return command


@click.group("lab", cls=_LabCommands)
def command() -> None:
    """
    Replay, compare, tune and watch timing wheels on traces of timers.
    """
