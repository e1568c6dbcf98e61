from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from tickwheel.cli.exits import ExitCode, Refused

__all__ = ["imported"]


def imported(name: str, what: str) -> ModuleType:
    """
    Import the module *name*, also from the working folder, like `python -m`. *what* introduces the name in an error.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  a user's module may raise anything
        reason = f"{type(error).__name__}: {error}"
        message = f"{what} {name!r} cannot be imported ({reason}): name a module that python -c 'import {name}' takes"
        raise Refused(ExitCode.USAGE, message) from None
