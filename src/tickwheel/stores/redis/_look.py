"""
Scans several shards with one request, for changes of other nodes and for due jobs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from tickwheel.jobs.model import Job, State
from tickwheel.jobs.rows import in_int64
from tickwheel.stores.contract import Cursor, LaneSet, Scan, ShardScan
from tickwheel.stores.redis._blob import instant, lane_mark, place_in, read_rows, target_mark
from tickwheel.stores.redis._connections import Connections
from tickwheel.stores.redis._scripts import packed

__all__ = ["before", "just_after", "look", "scan"]

_LAST: Final = 2**63 - 1
_U64: Final = struct.Struct(">Q")


def look(
    connections: Connections,
    owner: str | None,
    cursors: Sequence[Cursor],
    until: int,
    limit: int,
    *,
    with_changes: bool,
) -> list[ShardScan]:
    words: list[bytes | int] = []
    for cursor in cursors:
        first = just_after(cursor.after)
        following = b"" if until > _LAST else max(first, b"[" + instant(in_int64(until)))
        words += cursor.shard, cursor.epoch, b"" if cursor.mark is None else cursor.mark, first, following
    # One script reads all shards at the same moment.
    found = connections.run("look", before(until), limit + 1, owner or "", int(with_changes), *words)
    sights = []
    for cursor, changed, mark, ahead in zip(cursors, found[::3], found[1::3], found[2::3], strict=True):
        jobs = [job for job in _jobs(changed) if job.state is State.PENDING and job.pause is None]
        reached = [job for job in jobs if job.due_at <= cursor.after[0]]
        sights.append(
            ShardScan.of(reached, int(mark) if with_changes else cursor.mark or 0, _jobs(ahead), until, limit)
        )
    return sights


def scan(
    connections: Connections,
    cursors: Sequence[Cursor],
    until: int,
    limit: int,
    lanes: LaneSet,
    *,
    inside: bool,
    rows: int,
) -> list[Scan]:
    words: list[bytes | int] = [limit, rows, int(inside), packed(map(lane_mark, lanes.names))]
    words += packed(map(target_mark, lanes.targets)), packed(map(lane_mark, lanes.others))
    for cursor in cursors:
        words += cursor.shard, just_after(cursor.after)
    found = connections.run("scan", before(until), *words)
    return [
        Scan(_jobs(frames), place_in(reached) if reached else None)
        for frames, reached in zip(found[::2], found[1::2], strict=True)
    ]


def before(until: int) -> bytes:
    return b"+" if until > _LAST else b"(" + instant(in_int64(until))


def just_after(place: tuple[int, int]) -> bytes:
    return b"[" + instant(in_int64(place[0])) + _U64.pack(place[1] + 1)


def _jobs(frames: bytes) -> list[Job]:
    return [row.job for row in read_rows(frames)]
