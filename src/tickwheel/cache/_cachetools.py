"""
Our classes count as caches of cachetools where that is loaded: its decorators ask.
"""

from __future__ import annotations

import sys

__all__ = ["register"]


def register(cls: type) -> None:
    """
    Let an instance of *cls* be one of `cachetools.Cache`, if anybody has imported that; it is not imported here.
    """
    base = getattr(sys.modules.get("cachetools"), "Cache", None)
    if base is not None and not issubclass(cls, base):
        base.register(cls)
