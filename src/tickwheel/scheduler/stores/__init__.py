"""
Stores, in which far jobs wait.
"""

from __future__ import annotations

from tickwheel.scheduler.stores._memory import MemoryStore
from tickwheel.scheduler.stores._open import make_store, masked, open_store
from tickwheel.scheduler.stores.contract import (
    Abilities,
    Aside,
    Changes,
    Joins,
    Lease,
    Node,
    Partitioned,
    Shard,
    Skill,
    Store,
)

__all__ = [
    "Abilities",
    "Aside",
    "Changes",
    "Joins",
    "Lease",
    "MemoryStore",
    "Node",
    "Partitioned",
    "Shard",
    "Skill",
    "Store",
    "make_store",
    "masked",
    "open_store",
]
