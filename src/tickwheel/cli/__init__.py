"""
The command line. Each command is a file.

    app            the group of commands, which imports a command when it is called
    exits          the exit codes of errors
    options        shared options
    values         durations, times and JSON on the command line
    output         tables for people, JSON lines for programs
    listing        all jobs of a list, page after page
    crontab, interchange    crontabs, and jobs as lines
    logs           what a server reports
    serve, set, move, cancel, get, list, run, dead, schedule, import_, export, top, token, doctor, bench    the commands
    lab            the commands of the lab
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    for library in ("click", "rich"):
        if find_spec(library) is None:
            print(f"tickwheel: {library} is not installed: pip install 'tickwheel[cli]'", file=sys.stderr)  # noqa: T201  stdlib alone
            sys.exit(9)
    from tickwheel.cli.app import run  # noqa: PLC0415  click is installed from here on

    sys.exit(run(sys.argv[1:]))
