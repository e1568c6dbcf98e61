"""
get, pop, setdefault and the bulk forms for subclasses that have their own way with single items.

The native ones reach into the storage. A subclass with its own `__getitem__`, say, expects them to come through there,
as they do in cachetools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
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
    with suppress(KeyError):
        del self[key]  # so that a load of it which is under way keeps nothing
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


def get_many(self: Any, keys: Iterable[Any]) -> dict[Any, Any]:
    """
    Return a dict of those of the *keys* that are there, with their values.
    """
    return {key: self[key] for key in keys if key in self}


def set_many(self: Any, items: Mapping[Any, Any], ttl: Any = None) -> None:
    """
    Set all items of a mapping, as `set` does.
    """
    if not hasattr(items, "items"):
        message = f"items is {items!r}: pass a mapping of keys to values"
        raise TypeError(message)
    for key, value in items.items():
        self.set(key, value, ttl)


VERBS: Final = {"get": get, "get_many": get_many, "pop": pop, "set_many": set_many, "setdefault": setdefault}
