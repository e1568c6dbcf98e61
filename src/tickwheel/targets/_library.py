"""
Loads the third-party library of a target, on use.
"""

from __future__ import annotations

import importlib
from typing import Any

from tickwheel.errors import MissingExtraError

__all__ = ["library", "missing"]


def library(name: str, extra: str) -> Any:
    """
    Return the module called *name*.

    Raises:
        MissingExtraError: Naming the pip *extra* that brings it, and what is missing: that may be a library of its own.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing(error, name, extra) from None


def missing(error: ImportError, name: str, extra: str) -> MissingExtraError:
    """
    Return the error to raise because *name*, or what it imports itself, could not be imported.
    """
    library, lacked = (each.partition(".")[0].replace("_", "-") for each in (name, error.name or ""))
    shown = library if lacked in ("", library) else f"{lacked}, which {library} needs,"
    return MissingExtraError(shown, extra)
