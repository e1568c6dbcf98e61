"""
The caches that are compared.

Each has a maximum number of entries that live for an hour, and is made as its users would make it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["SUBJECTS", "is_here", "make"]

LIFE_S = 3600.0


class DictCache(dict[Any, Any]):
    """
    A common home-made cache: a dict of (deadline, value) that reads the clock.

    It has no limit, no order and no callbacks.
    """

    def __init__(self, life_s: float) -> None:
        super().__init__()
        self._life_s = life_s

    def __getitem__(self, key: Any) -> Any:
        deadline, value = super().__getitem__(key)
        if deadline <= time.monotonic():
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, (time.monotonic() + self._life_s, value))

    def expire(self) -> None:
        now = time.monotonic()
        for key in [key for key, (deadline, _) in self.items() if deadline <= now]:
            del self[key]


class TheineCache:
    """
    A cache of theine, which has methods in place of item access.
    """

    def __init__(self, size: int, life_s: float) -> None:
        from datetime import timedelta  # noqa: PLC0415 - nobody else needs it

        self._cache = import_module("theine").Cache(size)
        self._life = timedelta(seconds=life_s)
        self.get = self._cache.get

    def __getitem__(self, key: Any) -> Any:
        return self._cache.get(key)[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._cache.set(key, value, self._life)


def tickwheel_cache(size: int, life_s: float) -> Any:
    """
    Make a cache of tickwheel in which a thread removes due entries.
    """
    return import_module("tickwheel.cache").TTLCache(size, life_s, wheel=import_module("tickwheel").TimerWheel())


SUBJECTS: dict[str, tuple[str, Callable[[int, float], Any]]] = {
    "tickwheel": ("tickwheel", tickwheel_cache),
    "cachebox": ("cachebox", lambda size, life_s: import_module("cachebox").TTLCache(size, life_s)),
    "cachetools": ("cachetools", lambda size, life_s: import_module("cachetools").TTLCache(size, life_s)),
    "theine": ("theine", TheineCache),
    "dict": ("builtins", lambda _, life_s: DictCache(life_s)),
}


def is_here(subject: str) -> bool:
    """
    Return True if the library of a subject is installed.
    """
    return find_spec(SUBJECTS[subject][0]) is not None


def make(subject: str, size: int, life_s: float = LIFE_S) -> Any:
    return SUBJECTS[subject][1](size, life_s)
