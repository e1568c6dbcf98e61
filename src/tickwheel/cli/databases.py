"""
SQLAlchemy, by which other schedulers' tables are read.
"""

from __future__ import annotations

import importlib
from typing import Any

from tickwheel.cli.exits import ExitCode, Refused

__all__ = ["sqlalchemy"]


def sqlalchemy() -> Any:
    """
    Return SQLAlchemy.

    Raises:
        Refused: If it is not installed: no extra brings it.
    """
    try:
        return importlib.import_module("sqlalchemy")
    except ImportError:
        raise Refused(ExitCode.MISSING_EXTRA, "SQLAlchemy is not installed: pip install sqlalchemy") from None
