"""
Which store a URL names.

    memory://                               in this process's memory
    sqlite:///its/path.db                   a file, from the working folder
    sqlite:////its/path.db                  a file, from the root
    sqlite:///its/path.db?synchronous=normal    ... that does not wait for the disk: labelled with its loss window
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs

from tickwheel.clock import Clock
from tickwheel.scheduler.errors import StoreError
from tickwheel.scheduler.stores import MemoryStore, Store

__all__ = ["masked", "store_of"]


def store_of(url: str, clock: Clock) -> Store:
    """
    Return the store that *url* names, not yet opened.

    Raises:
        StoreError: If there is none of that kind; the message lists those that there are.
        MissingExtraError: If it needs a library that is not installed.
    """
    scheme, colon, rest = url.partition("://")
    make = _STORES.get(scheme)
    if not colon or make is None:
        known = ", ".join(f"{name}://" for name in _STORES)
        what = f"there is no store for {masked(url)!r}"
        raise StoreError(what, f"the kinds are {known}; a file is sqlite:///its/path.db")
    place, _, query = rest.partition("?")
    try:
        return make(place, parse_qs(query, keep_blank_values=True, strict_parsing=bool(query)), clock)
    except ValueError as error:
        what = f"the store {masked(url)!r} cannot be had"
        raise StoreError(what, str(error)) from None


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


def _memory(place: str, query: dict[str, list[str]], clock: Clock) -> Store:
    if place or query:
        message = "there is one kind of memory: write memory://"
        raise ValueError(message)
    return MemoryStore(clock)


def _sqlite(place: str, query: dict[str, list[str]], clock: Clock) -> Store:
    from tickwheel.scheduler.stores.sqlite import SqliteStore  # noqa: PLC0415  a client of another store needs none

    path = place.removeprefix("/")
    if not place.startswith("/") or not path:
        message = "a file is sqlite:///its/path.db, with three slashes, or four from the root"
        raise ValueError(message)
    synchronous = query.pop("synchronous", ["full"])[-1]
    if query:
        message = f"a file takes ?synchronous=full or normal, not {', '.join(query)}"
        raise ValueError(message)
    return SqliteStore(path, synchronous=synchronous, clock=clock)


_STORES: Final[dict[str, Callable[[str, dict[str, list[str]], Clock], Store]]] = {"memory": _memory, "sqlite": _sqlite}
