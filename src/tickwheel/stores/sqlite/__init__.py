"""
Jobs in one SQLite file: the default, with nothing to install and nothing to run.
"""

from __future__ import annotations

from tickwheel.stores.sqlite._store import SqliteStore

__all__ = ["SqliteStore"]
