"""
Stores jobs in one SQLite file: the default store, which needs no installation and no server.
"""

from __future__ import annotations

from tickwheel.stores.sqlite._store import SqliteStore

__all__ = ["SqliteStore"]
