"""
The native storage as a mapping from keys of one type to values of another, which `_native.pyi` says.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

from tickwheel import _core

__all__ = ["NativeCache"]

K = TypeVar("K")
V = TypeVar("V")


class NativeCache(_core.Cache, MutableMapping[K, V]):
    """
    `tickwheel._core.Cache`, typed.
    """
