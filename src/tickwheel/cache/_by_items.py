"""
get, pop, setdefault and the bulk methods for subclasses that override the access to single items.

The native methods access the storage directly. A subclass that overrides `__getitem__` expects all methods to call it,
as in cachetools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

__all__ = ["ITEM_METHODS", "VERBS"]

ITEM_METHODS: Final = frozenset({"__contains__", "__delitem__", "__getitem__", "__setitem__"})
_NOTHING: Final = object()


def get(self: Any, key: Any, default: Any = None) -> Any:
    return self[key] if key in self else default  # noqa: SIM401 - this is `get`


def pop(self: Any, key: Any, default: Any = _NOTHING) -> Any:
    if key in self:
        value = self[key]
        del self[key]
        return value
    with suppress(KeyError):
        del self[key]  # so that a running load of the key stores nothing
    if default is _NOTHING:
        raise KeyError(key)
    return default


def setdefault(self: Any, key: Any, default: Any = None) -> Any:
    if key in self:
        return self[key]
    self[key] = default
    return default


def get_many(self: Any, keys: Iterable[Any]) -> dict[Any, Any]:
    return {key: self[key] for key in keys if key in self}


def set_many(self: Any, items: Mapping[Any, Any], ttl: Any = None) -> None:
    if not hasattr(items, "items"):
        message = f"items is {items!r}: pass a mapping of keys to values"
        raise TypeError(message)
    for key, value in items.items():
        self.set(key, value, ttl)


VERBS: Final = {"get": get, "get_many": get_many, "pop": pop, "set_many": set_many, "setdefault": setdefault}
