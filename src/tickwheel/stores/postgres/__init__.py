"""
Stores jobs in PostgreSQL, for processes on several machines.
"""

from __future__ import annotations

from tickwheel.stores.postgres._store import PostgresStore

__all__ = ["PostgresStore"]
