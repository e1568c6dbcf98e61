"""
The stores of the durable scheduler. A store keeps jobs until they are due.
"""

from __future__ import annotations

from tickwheel.stores._base import BaseStore
from tickwheel.stores._manifests import partitions_of
from tickwheel.stores._memory import MemoryStore
from tickwheel.stores._open import make_store, masked, open_store
from tickwheel.stores.contract import (
    Abilities,
    Aside,
    Cursor,
    Examinable,
    Finding,
    Joins,
    LaneSet,
    Lease,
    Node,
    Partitioned,
    Scan,
    Shard,
    ShardScan,
    Skill,
    Store,
    Versioned,
)

__all__ = [
    "Abilities",
    "Aside",
    "BaseStore",
    "Cursor",
    "Examinable",
    "Finding",
    "Joins",
    "LaneSet",
    "Lease",
    "MemoryStore",
    "Node",
    "Partitioned",
    "Scan",
    "Shard",
    "ShardScan",
    "Skill",
    "Store",
    "Versioned",
    "make_store",
    "masked",
    "open_store",
    "partitions_of",
]
