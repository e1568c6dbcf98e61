from __future__ import annotations

import importlib
from typing import Any

from tickwheel.cli.exits import ExitCode, Refused

__all__ = ["sqlalchemy"]


def sqlalchemy() -> Any:
    try:
        return importlib.import_module("sqlalchemy")
    except ImportError:
        raise Refused(ExitCode.MISSING_EXTRA, "SQLAlchemy is not installed: pip install sqlalchemy") from None
