"""
The statements of `queries.sql`, `look.sql`, `history.sql`, `scopes.sql`, `server.sql` and `withdrawals.sql`, by name.
"""

from __future__ import annotations

from typing import Final

from tickwheel.scheduler.stores._sql import load_queries

__all__ = ["SQL"]

SQL: Final = load_queries(__package__)
