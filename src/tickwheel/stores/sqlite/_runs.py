"""
The keys of jobs that are not due soon, in sorted runs.

Keys arrive in random order, so each would write a separate page of a large table. New keys therefore go to a small
shelf (a key partition), shelf 1. A full shelf 1 becomes a run, and eight runs of one size are merged into a run of the
next size. Each key is written a few times, always together with other keys.

A key in a run is a hint: it is valid if it leads to an existing row. Ending or moving a job therefore changes no run,
and look-ups are right during a merge. A merge moves the keys in order, one slice per commit. Its state is in the file.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections import defaultdict
from itertools import pairwise
from typing import Final, TypeAlias

from tickwheel.stores.sqlite._connections import Connections
from tickwheel.stores.sqlite._filters import filter_of
from tickwheel.stores.sqlite._queries import SQL, behind, by_keys
from tickwheel.stores.sqlite._reserve import Reserve

__all__ = ["KEY_BYTES", "Merger"]

_SHELF_MAX: Final = 4_096
"""Maximum number of new keys in shelf 1 (the first key partition), about 50 pages, before they become a sorted run."""

_SLICE: Final = 4_096
"""Number of keys that one step of a merge moves to a larger run (sorted list of keys), in about 10 ms."""

_MERGED: Final = 8
_OWED: Final = 6
"""Number of keys that merges move for each new key, which is enough for 30 million keys."""

_LATE_SLICES: Final = 4
"""Maximum number of commits, per renewal of the lease, that merge the keys of other processes' jobs."""

_HINTS_MIN: Final = 100_000

KEY_BYTES: Final = 640
"""Maximum growth of the database, in bytes, for each key that a merge moves. This includes its Bloom filter."""

_INT64_MAX: Final = 2**63 - 1

_Shelf: TypeAlias = tuple[int, int, int | None]


class Merger:
    def __init__(self) -> None:
        self._owed = 0

    def pay(self, connection: sqlite3.Connection, more: int, now: int) -> int:
        """
        Move keys between runs (sorted lists of keys): six moves for each of the *more* keys that this commit adds.
        """
        self._owed += _OWED * more
        if self._owed < _SLICE:
            return 0
        slices, self._owed = divmod(self._owed, _SLICE)
        return sum(merge(connection, now) for _ in range(slices))

    def catch_up(self, connections: Connections, now: int, reserve: Reserve) -> None:
        for _ in range(_LATE_SLICES):
            with connections.reading() as connection:
                if reserve.is_spent or not _is_wanted(connection):
                    return
            with connections.writing() as connection:
                reserve.cover(KEY_BYTES * merge(connection, now), connection)


def merge(connection: sqlite3.Connection, now: int) -> int:
    shelves = _shelves(connection)
    while sources := _full(connection, shelves):
        goal = secrets.randbits(62) | 1 << 61  # run numbers are never reused, not even in a restored backup
        connection.execute(SQL["insert_run"], (goal,))
        connection.executemany(SQL["set_goal"], [(goal, number) for number in sources])
        shelves = _shelves(connection)
    sizes: defaultdict[int, int] = defaultdict(int)
    for _, size, goal_of_it in shelves:
        if goal_of_it is not None:
            sizes[goal_of_it] += size
    if not sizes:
        return 0
    goal = min(sizes, key=sizes.__getitem__)
    sources = [number for number, _, goal_of_it in shelves if goal_of_it == goal]
    return _move(connection, goal, sources, _INT64_MAX if _is_littered(connection, shelves) else now)


def _move(connection: sqlite3.Connection, goal: int, sources: list[int], checked: int) -> int:
    # drops outdated keys that are due before *checked*
    (end,) = connection.execute(SQL["end_of_run"], (goal,)).fetchone()
    first = "" if end is None else behind(end)
    share = max(1, _SLICE // len(sources))
    parts = [_keys_from(connection, number, first, share) for number in sources]
    lasts = [part[-1] for part in parts if len(part) == share]
    keys = sorted(key for part in parts for key in part)
    if lasts:
        last = min(lasts)
        keys = [key for key in keys if key <= last]
    if keys:
        doubles = {key for key, other in pairwise(keys) if key == other}
        for number, part in zip(sources, parts, strict=True):  # of equal keys, the outdated ones are deleted
            stale = [key for key in part if key in doubles]
            for statement, values, _ in by_keys("delete_stale_keys", number, stale):
                connection.execute(statement, values)
        moved = connection.execute(SQL["move_keys"], (first, keys[-1], goal, checked)).rowcount
        if moved:
            there = keys if moved == len(keys) else _keys_from(connection, goal, first, moved)
            connection.execute(SQL["insert_filter"], (goal, there[-1], filter_of(there)))
            connection.execute(SQL["grow_run"], (moved, goal))
        connection.execute(SQL["delete_moved_keys"], (goal, first, keys[-1]))
        connection.execute(SQL["delete_moved_filters"], (goal, keys[-1]))
    if not lasts:
        connection.execute(SQL["delete_filters_of_merged"], (goal,))
        connection.execute(SQL["delete_merged_runs"], (goal,))
        connection.execute(SQL["delete_empty_run"], (goal,))
        connection.execute(SQL["free_shelf"], (goal,))
    return len(keys)


def _full(connection: sqlite3.Connection, shelves: list[_Shelf]) -> list[int]:
    """
    Return the key partitions to merge: new keys, eight sorted runs of one size, or all runs if most keys are outdated.
    """
    goals = {goal for _, _, goal in shelves}
    free = {number: size for number, size, goal in shelves if goal is None and number not in goals}
    if free.pop(1, None) is not None and connection.execute(SQL["is_shelf_full"], (_SHELF_MAX,)).fetchone()[0]:
        return [1]
    levels: defaultdict[int, list[int]] = defaultdict(list)
    for number, size in free.items():
        levels[(size // _SHELF_MAX).bit_length() // 3].append(number)
    for level in sorted(levels):
        if len(levels[level]) >= _MERGED:
            return levels[level]
    return list(free) if goals == {None} and _is_littered(connection, shelves) else []


def _is_littered(connection: sqlite3.Connection, shelves: list[_Shelf]) -> bool:
    goals = {goal for _, _, goal in shelves}
    hints = sum(size for number, size, _ in shelves if number not in goals)
    if hints <= _HINTS_MIN:
        return False
    jobs: int = sum(connection.execute(SQL["read_ledger"]).fetchone()[1:4])
    return hints > _HINTS_MIN + 2 * jobs


def _is_wanted(connection: sqlite3.Connection) -> bool:
    shelves = _shelves(connection)
    return any(goal is not None for _, _, goal in shelves) or bool(_full(connection, shelves))


def _shelves(connection: sqlite3.Connection) -> list[_Shelf]:
    return connection.execute(SQL["shelves"]).fetchall()


def _keys_from(connection: sqlite3.Connection, shelf: int, first: str, limit: int) -> list[str]:
    return [key for (key,) in connection.execute(SQL["keys_from"], (shelf, first, limit))]
