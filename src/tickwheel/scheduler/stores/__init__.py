"""
Where far jobs wait.
"""

from __future__ import annotations

from tickwheel.scheduler.stores._contract import Abilities, Changes, Joins, Lease, Shard, Store
from tickwheel.scheduler.stores._memory import MemoryStore
from tickwheel.scheduler.stores._open import make_store, masked, open_store

__all__ = [
    "Abilities",
    "Changes",
    "Joins",
    "Lease",
    "MemoryStore",
    "Shard",
    "Store",
    "make_store",
    "masked",
    "open_store",
]
