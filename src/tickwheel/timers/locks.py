"""
Locks that a fork finds free.

The child of a fork has one thread. A lock that another thread held at that moment would stay shut in the child for
ever, and what it guards would be half done. So the forking thread takes all of them first, outer before inner, as
everyone does.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final, TypeAlias

from tickwheel.threads import RLock

__all__ = ["INNER", "MIDDLE", "OUTER", "OUTERMOST", "Lock", "new_lock"]

Lock: TypeAlias = "threading.RLock"

OUTERMOST: Final = 0
"""For what uses several wheels while it holds its own lock."""
OUTER: Final = 1
"""For what calls an engine while it holds its own lock."""
MIDDLE: Final = 2
"""For a driver, which is woken by those."""
INNER: Final = 3
"""For an engine, which calls nobody while it holds its lock."""

_locks: Final[tuple[set[weakref.ref[Lock]], ...]] = tuple(set() for _ in range(4))
_forking: Final = RLock()
"""Held by the thread that forks: two would take locks of one rank in different orders."""
_held: list[Lock] = []


def new_lock(rank: int) -> Lock:
    """
    Return a re-entrant lock of a *rank*, free in the child of every fork.
    """
    lock = RLock()
    _locks[rank].add(weakref.ref(lock, _locks[rank].discard))
    return lock


def _take() -> None:
    _forking.acquire()
    for rank in _locks:
        for ref in rank.copy():  # in one step: others make locks meanwhile
            lock = ref()
            if lock is not None:
                lock.acquire()
                _held.append(lock)


def _give() -> None:
    while _held:
        _held.pop().release()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give, after_in_child=_give)
