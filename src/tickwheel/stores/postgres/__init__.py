"""
Jobs in PostgreSQL: several machines, one store.
"""

from __future__ import annotations

from tickwheel.stores.postgres._store import PostgresStore

__all__ = ["PostgresStore"]
