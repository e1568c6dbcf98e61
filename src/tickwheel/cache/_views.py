"""
Views of a cache's items and values that do not count as use.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, Final, TypeVar

__all__ = ["ITEMS", "KEYS", "RECORDS", "VALUES", "CacheItems", "CacheValues"]

K = TypeVar("K")
V = TypeVar("V")

KEYS: Final = 0
VALUES: Final = 1
ITEMS: Final = 2
RECORDS: Final = 3
"""Selects records of key, value, lifetime, remaining lifetime and remaining maximum age. Times are in nanoseconds."""


class CacheItems(ItemsView[K, V]):
    __slots__ = ("_find", "_iterate")

    def __init__(
        self,
        cache: Mapping[K, V],
        iterate: Callable[[int], Iterator[tuple[K, V]]],
        find: Callable[[object], tuple[object] | None],
    ) -> None:
        super().__init__(cache)
        self._iterate = iterate
        self._find = find

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:  # noqa: PLR2004 - an item is a pair
            return False
        found = self._find(item[0])
        return found is not None and (found[0] is item[1] or bool(found[0] == item[1]))

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._iterate(ITEMS)


class CacheValues(ValuesView[V]):
    __slots__ = ("_iterate",)

    def __init__(self, cache: Mapping[Any, V], iterate: Callable[[int], Iterator[V]]) -> None:
        super().__init__(cache)
        self._iterate = iterate

    def __contains__(self, value: object) -> bool:
        return any(each is value or each == value for each in self)

    def __iter__(self) -> Iterator[V]:
        return self._iterate(VALUES)
