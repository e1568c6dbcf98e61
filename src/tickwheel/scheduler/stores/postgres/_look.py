"""
Looks into some shards at once: what others made pending there, and what is due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores._rows import in_int64, job_of
from tickwheel.scheduler.stores.contract import Cursor, Sight
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["look"]


def look(
    connection: Connection, owner: str | None, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool
) -> list[Sight]:
    """
    Return what *owner* sees, as the method of the store says: notes, which are taken away, and then what is due.
    """
    marked = [cursor for cursor in cursors if cursor.mark is not None]
    changed: dict[int, list[Job]] = {}
    if with_changes and marked:
        changed = _by_shard(connection, "take_notes", {"owner": owner, **_columns(marked)})
    ahead = _by_shard(connection, "jobs_ahead", {"until": in_int64(until), "limit": limit + 1, **_columns(cursors)})
    return [Sight.of(changed.get(each.shard, []), 0, ahead.get(each.shard, []), until, limit) for each in cursors]


def _by_shard(connection: Connection, name: str, values: dict[str, object]) -> dict[int, list[Job]]:
    found: defaultdict[int, list[Job]] = defaultdict(list)
    for row in connection.execute(SQL[name], values).fetchall():
        found[row[0]].append(job_of(row[1:]))
    return found


def _columns(cursors: Sequence[Cursor]) -> dict[str, object]:
    return {
        "shards": [cursor.shard for cursor in cursors],
        "epochs": [cursor.epoch for cursor in cursors],
        "instants": [in_int64(cursor.after[0]) for cursor in cursors],
        "generations": [cursor.after[1] for cursor in cursors],
    }
