"""
Internal: locks that are free in the child of a fork.

The child of a fork has one thread. A lock that another thread held at the fork would stay locked in the child forever,
and the guarded data could be half changed. So the forking thread first takes all these locks, outer before inner, in
the order that all threads use.
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
"""Rank of a lock whose holder may call several wheels."""
OUTER: Final = 1
"""Rank of a lock whose holder may call an engine."""
MIDDLE: Final = 2
"""Rank of a driver's lock."""
INNER: Final = 3
"""Rank of an engine's lock. Its holder calls no code that takes another lock."""

_locks: Final[tuple[set[weakref.ref[Lock]], ...]] = tuple(set() for _ in range(4))
_forking: Final = RLock()
"""Held by a forking thread. Two forking threads at once would take the locks of one rank in different orders."""
_held: list[Lock] = []


def new_lock(rank: int) -> Lock:
    lock = RLock()
    _locks[rank].add(weakref.ref(lock, _locks[rank].discard))
    return lock


def _take() -> None:
    _forking.acquire()
    for rank in _locks:
        for ref in rank.copy():  # a copy in one step, because other threads add locks at the same time
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
