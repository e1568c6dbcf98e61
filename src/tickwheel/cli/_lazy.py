from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches

import click

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """
    A group of commands. `modules` maps the name of each command to its module, which is imported on first use.
    """

    modules: Mapping[str, str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return None
        command: click.Command = importlib.import_module(self.modules[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if close := get_close_matches(args[0], self.modules, n=1):
                message = f"{error.message} Did you mean {close[0]!r}?"
                raise click.UsageError(message, ctx) from None
            raise
