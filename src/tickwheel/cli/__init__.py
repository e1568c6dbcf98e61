"""
The command line. Each command is a file. `app` is the group of commands; it imports a command when you call it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> None:
    for library in ("click", "rich"):
        if find_spec(library) is None:
            print(f"tickwheel: {library} is not installed: pip install 'tickwheel[cli]'", file=sys.stderr)  # noqa: T201  without click
            sys.exit(9)
    from tickwheel.cli.app import run  # noqa: PLC0415  click is installed from here on

    sys.exit(run(sys.argv[1:]))
