"""
Where far jobs wait.
"""

from __future__ import annotations

from tickwheel.scheduler.stores._contract import Abilities, Changes, Lease, Store
from tickwheel.scheduler.stores._memory import MemoryStore

__all__ = ["Abilities", "Changes", "Lease", "MemoryStore", "Store"]
