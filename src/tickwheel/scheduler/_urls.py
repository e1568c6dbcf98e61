"""
Which store a URL names.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast

from tickwheel.clock import Clock
from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.stores import MemoryStore, Store

__all__ = ["store_of"]

_STORES: Final = {"sqlite": ("tickwheel.scheduler.stores.sqlite", "SQLiteStore")}
"""By scheme, the module and class of a store that is made with the URL; imported when it is asked for."""


def store_of(url: str, clock: Clock) -> Store:
    """
    Return the store that *url* names, not yet opened.

    Raises:
        StoreError: If there is none of that kind; the message lists those that there are.
        MissingExtraError: If it needs a library that is not installed.
    """
    scheme, colon, _ = url.partition("://")
    if url == "memory://":
        return MemoryStore(clock)
    if not colon or scheme not in _STORES:
        known = ", ".join(f"{name}://" for name in ("memory", *_STORES))
        what = f"there is no store for {masked(url)!r}"
        raise StoreError(what, f"the kinds are {known}; a file is sqlite:///its/path.db")
    module, name = _STORES[scheme]
    make = cast("Callable[[str], Store]", getattr(import_module(module), name))
    return make(url)


def masked(url: str) -> str:
    """
    Return *url* with its password, if it has one, hidden.
    """
    scheme, colon, rest = url.partition("://")
    login, at, place = rest.rpartition("@")
    if not at:
        return url
    user, has_password, _ = login.partition(":")
    return f"{scheme}{colon}{user}{':***' if has_password else ''}@{place}"
