"""
Loads the third-party library of a target, on use.
"""

from __future__ import annotations

import importlib
from typing import Any

from tickwheel.errors import MissingExtraError

__all__ = ["library"]


def library(name: str, extra: str) -> Any:
    """
    Return the module called *name*.

    Raises:
        MissingExtraError: Naming the pip *extra* that brings it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(name.partition(".")[0].replace("_", "-"), extra) from None
