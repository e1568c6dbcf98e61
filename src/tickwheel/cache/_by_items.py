"""
get, pop and setdefault for subclasses that have their own way with single items.

The native ones reach into the storage. A subclass with its own `__getitem__`, say, expects them to come through there,
as they do in cachetools.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ITEM_METHODS", "VERBS"]

ITEM_METHODS: Final = frozenset({"__contains__", "__delitem__", "__getitem__", "__setitem__"})
_NOTHING: Final = object()


def get(self: Any, key: Any, default: Any = None) -> Any:
    """
    Return the value of *key*, or *default*.
    """
    return self[key] if key in self else default  # noqa: SIM401 - this is `get`


def pop(self: Any, key: Any, default: Any = _NOTHING) -> Any:
    """
    Remove *key* and return its value, or *default*; without one, raise KeyError.
    """
    if key in self:
        value = self[key]
        del self[key]
        return value
    if default is _NOTHING:
        raise KeyError(key)
    return default


def setdefault(self: Any, key: Any, default: Any = None) -> Any:
    """
    Return the value of *key*; if it has none, set *default* and return that.
    """
    if key in self:
        return self[key]
    self[key] = default
    return default


VERBS: Final = {"get": get, "pop": pop, "setdefault": setdefault}
