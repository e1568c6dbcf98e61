from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from click.shell_completion import shell_complete

from tickwheel.cli._lazy import LazyGroup
from tickwheel.cli.exits import ExitCode, Refused, exit_code_of, table
from tickwheel.errors import TickwheelError

__all__ = ["run"]

COMMANDS: Final = {
    "serve": "serve",
    "set": "set",
    "move": "move",
    "cancel": "cancel",
    "get": "get",
    "history": "history",
    "explain": "explain",
    "watch": "watch",
    "list": "list",
    "run": "run",
    "change": "change",
    "skip": "skip",
    "pause": "pause",
    "resume": "resume",
    "scopes": "scopes",
    "dead": "dead",
    "schedule": "schedule",
    "import": "import_",
    "export": "export",
    "migrate": "migrate",
    "acts": "acts",
    "report": "report",
    "top": "top",
    "token": "token",
    "doctor": "doctor",
    "bench": "bench",
    "load": "load",
    "chaos": "chaos",
    "lab": "lab",
}
"""The module of each command, in the order of the help text."""


_FIELD: Final = re.compile(r"^(?:\w+\.)?(\w+)(?= is )|\b(\w+)=(?:True\b|(?!\w))")
"""A field name at the start of an error message, or an argument such as `payload=` or `is_new=True`."""
_COMPLETE: Final = "_TICKWHEEL_COMPLETE"
"""The environment variable of shell completion. Its value is bash_source, zsh_source or fish_source."""


class _Commands(LazyGroup):
    modules = {name: f"tickwheel.cli.{module}" for name, module in COMMANDS.items()}  # noqa: RUF012 click's groups are made once

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\nExit codes:\n{table()}\n")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tickwheel", message="%(prog)s %(version)s")
def cli() -> None:
    """
    Timers that survive a crash: set a job by key, move it, cancel it, and see it fire.
    """


def run(arguments: Sequence[str]) -> int:  # noqa: PLR0911  one return for each exit
    """
    Run one command, and return its exit code. Only internal errors show a traceback.

    With `--json`, an error is a line of JSON on stderr, with the message, the exit code and its meaning.
    """
    if instruction := os.environ.get(_COMPLETE):
        return shell_complete(cli, {}, "tickwheel", _COMPLETE, instruction)
    is_json = "--json" in arguments
    if sys.stdout is None:
        message = "standard output is closed: leave it open, or write it to /dev/null"
        return _say(message, ExitCode.FAILED, is_json=is_json)
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  open until the process ends
    try:
        with cli.make_context("tickwheel", list(arguments)) as context:
            cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:  # --help, --version
        return end.exit_code
    except click.ClickException as error:
        return _show(error, is_json=is_json)
    except Refused as refusal:
        return _say(str(refusal), refusal.code, is_json=is_json)
    except TickwheelError as error:
        return _say(_with_options(str(error), arguments), exit_code_of(error), is_json=is_json)
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except OSError as error:
        # The buffered output cannot be written any more, so discard it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # a reader that closed the pipe is not an error
            return _say(f"the system reports: {error}", ExitCode.FAILED, is_json=is_json)
    return ExitCode.DONE


def _show(error: click.ClickException, *, is_json: bool) -> int:
    if is_json:
        return _say(error.format_message(), ExitCode.USAGE, is_json=True)
    error.show()
    return ExitCode.USAGE


def _with_options(message: str, arguments: Sequence[str]) -> str:
    command: click.Command = cli
    context = click.Context(cli)
    for argument in arguments:
        found = command.get_command(context, argument) if isinstance(command, click.Group) else None
        command = found or command
    options = {each.name: each.opts[0] for each in command.params if isinstance(each, click.Option)}
    return _FIELD.sub(lambda match: options.get(match[1] or match[2], match[0]), message)


def _say(message: str, code: ExitCode, *, is_json: bool = False) -> int:
    document = {"error": message, "code": int(code), "meaning": code.meaning}
    click.echo(json.dumps(document) if is_json else f"tickwheel: {message}", err=True)
    return code
