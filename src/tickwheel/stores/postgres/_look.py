"""
Scans several shards with one request, for changes of other nodes and for due jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

from tickwheel.jobs.model import Job
from tickwheel.jobs.rows import in_int64, job_of
from tickwheel.stores.contract import Cursor, LaneSet, Scan, ShardScan
from tickwheel.stores.postgres._connections import Connection, Connections
from tickwheel.stores.postgres._queries import SQL

__all__ = ["look", "scan"]


_NOTES_MAX: Final = 4_000
"""Maximum number of notes of changed jobs that one scan reads, over all its shards."""


def look(
    connections: Connections,
    owner: str | None,
    cursors: Sequence[Cursor],
    until: int,
    limit: int,
    *,
    with_changes: bool,
) -> tuple[list[ShardScan], bool]:
    """
    Return the answer to `Store.look` for *owner*, and True if the store may have more notes of changes.
    """
    marked = [cursor for cursor in cursors if cursor.mark is not None]
    taken, most = None, 0
    with connections.writing() if with_changes and marked else connections.reading() as connection:
        if with_changes and marked:
            most = 2 * (half := max(1, _NOTES_MAX // (2 * len(marked))))
            values = {"owner": owner, "limit": half, **_columns(marked)}
            taken = connection.execute(SQL["take_notes"], values)
        values = {"until": in_int64(until), "limit": limit + 1, **_columns(cursors)}
        rows = connection.execute(SQL["jobs_ahead"], values)
    notes = taken.fetchall() if taken else []
    changed, ahead = _by_shard(notes), _by_shard(rows.fetchall())
    sights = [ShardScan.of(changed[each.shard], 0, ahead[each.shard], until, limit) for each in cursors]
    return sights, most > 0 and most in Counter(number for number, *_ in notes).values()


def scan(
    connection: Connection,
    cursors: Sequence[Cursor],
    until: int,
    limit: int,
    lanes: LaneSet,
    *,
    inside: bool,
    rows: int,
) -> list[Scan]:
    names = {"lanes": [*lanes.names], "targets": [*lanes.targets], "others": [*lanes.others]}
    values = {"until": in_int64(until), "limit": limit, "rows": rows, "inside": inside}
    found = connection.execute(SQL["jobs_in_lanes"], {**names, **values, **_columns(cursors)}).fetchall()
    due = _by_shard([(number, *row) for number, _, _, *row in found])
    ends = {number: None if due_at is None else (due_at, generation) for number, due_at, generation, *_ in found}
    return [Scan.of(due[each.shard], limit, ends[each.shard]) for each in cursors]


def _by_shard(rows: list[Any]) -> defaultdict[int, list[Job]]:
    found: defaultdict[int, list[Job]] = defaultdict(list)
    for number, *row in rows:
        if row[0] is not None:
            found[number].append(job_of(tuple(row)))
    return found


def _columns(cursors: Sequence[Cursor]) -> dict[str, object]:
    return {
        "shards": [cursor.shard for cursor in cursors],
        "epochs": [cursor.epoch for cursor in cursors],
        "instants": [in_int64(cursor.after[0]) for cursor in cursors],
        "generations": [cursor.after[1] for cursor in cursors],
    }
