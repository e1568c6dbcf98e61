"""
The native storage as a generic mapping; the types are in `_native.pyi`.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

from tickwheel import _core

__all__ = ["NativeCache"]

K = TypeVar("K")
V = TypeVar("V")


class NativeCache(_core.Cache, MutableMapping[K, V]):
    pass
