"""
A prototype of a store that writes in order. The page "the wheel on disk" in docs/decisions has the results.

| what | how it is written |
|---|---|
| a new far job | its row is added at the end of the rows of its day |
| the key of the job | it is added to a small table, the shelf |
| a full shelf | it becomes a sorted run; eight runs of the same size are merged into one larger run |
| a move | a new row and a new key are added, and the old row is marked as gone; the newest run has the valid key |
| a cancel | the key is added without a due time, and the row is marked as gone |
| a day that comes near | its rows are sorted into the table of near jobs, in one step |

The prototype keeps in memory which runs there are, and a filter of the keys in each. Only one process writes. Jobs
cannot be listed, and do not fire.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tickwheel.scheduler import Job

__all__ = ["DAY_MS", "OrderedWheel"]

DAY_MS: Final = 86_400_000
_SHELF_MAX: Final = 40_000
"""Maximum number of keys on the shelf, some 500 pages. A commit of a thousand keys rewrites most of these pages."""
_MERGED: Final = 8
_AT_ONCE: Final = 500
_BITS_A_KEY: Final = 16

_TABLES: Final = """
CREATE TABLE far (
    day INTEGER, generation INTEGER, due_at INTEGER NOT NULL,
    key TEXT NOT NULL, state INTEGER NOT NULL, attempt INTEGER NOT NULL, payload BLOB NOT NULL, target TEXT NOT NULL,
    handler TEXT NOT NULL, retry TEXT, expires_at INTEGER, recurrence TEXT, error TEXT, trace TEXT,
    first_set_at INTEGER NOT NULL,
    PRIMARY KEY (day, generation)
) WITHOUT ROWID;
CREATE TABLE gone (day INTEGER, generation INTEGER, PRIMARY KEY (day, generation)) WITHOUT ROWID;
CREATE TABLE near (
    due_at INTEGER, generation INTEGER,
    key TEXT NOT NULL, state INTEGER NOT NULL, attempt INTEGER NOT NULL, payload BLOB NOT NULL, target TEXT NOT NULL,
    handler TEXT NOT NULL, retry TEXT, expires_at INTEGER, recurrence TEXT, error TEXT, trace TEXT,
    first_set_at INTEGER NOT NULL,
    PRIMARY KEY (due_at, generation)
) WITHOUT ROWID;
CREATE TABLE key (
    run INTEGER, key TEXT, due_at INTEGER, generation INTEGER NOT NULL, PRIMARY KEY (run, key)
) WITHOUT ROWID;
CREATE TABLE ledger (id INTEGER PRIMARY KEY, generation INTEGER NOT NULL, pending INTEGER NOT NULL);
INSERT INTO ledger VALUES (1, 0, 0);
"""
_FIND: Final = "SELECT key, due_at, generation FROM key WHERE run = ? AND key IN ({})"
_APPEND: Final = """
INSERT INTO far (day, generation, due_at, key, state, attempt, payload, target, handler, first_set_at)
VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?, ?)
"""
# The newest generation of a key wins. SQLite takes the other columns from the row with the maximum.
_MERGE: Final = """
INSERT INTO key SELECT ?, key, due_at, max(generation) FROM key WHERE run IN ({}) GROUP BY key ORDER BY key
"""
_CASCADE: Final = """
INSERT INTO near (due_at, generation, key, state, attempt, payload, target, handler, first_set_at)
SELECT due_at, generation, key, state, attempt, payload, target, handler, first_set_at FROM far WHERE day = :day
    AND NOT EXISTS (SELECT 1 FROM gone WHERE gone.day = :day AND gone.generation = far.generation)
ORDER BY due_at, generation
"""


class _Filter:
    """
    A Bloom filter of the keys in a sorted run.

    It has at least sixteen bits for each key. A key sets one of them.
    """

    def __init__(self, keys: Iterable[str], size: int) -> None:
        """
        Make a filter of *keys*, with room for *size* keys.
        """
        self._mask = (1 << (size * _BITS_A_KEY).bit_length()) - 1
        self._bits = bytearray((self._mask + 1) // 8)
        for key in keys:
            place = zlib.crc32(key.encode()) & self._mask
            self._bits[place >> 3] |= 1 << (place & 7)

    def within(self, keys: Iterable[str]) -> list[str]:
        """
        Return the *keys* that may be in the run; all others are certainly not in it.
        """
        bits, mask = self._bits, self._mask
        places = ((key, zlib.crc32(key.encode()) & mask) for key in keys)
        return [key for key, place in places if bits[place >> 3] >> (place & 7) & 1]


@dataclass(frozen=True, slots=True)
class _Run:
    number: int
    level: int
    size: int
    filter: _Filter


class OrderedWheel:
    """
    The prototype's far jobs in a file.

    The caller begins and commits each transaction, and may replace the connection between transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._shelf = 0
        """Number of keys on the shelf, which is run 0."""
        self._runs: list[_Run] = []
        """The runs, newest first."""
        self._last = 0
        connection.executescript(_TABLES)

    def set(self, jobs: Sequence[Job]) -> None:
        """
        Set *jobs*. A job replaces the pending job with the same key, if there is one.
        """
        before = self._find([job.key for job in jobs])
        self.connection.executemany("INSERT INTO gone VALUES (?, ?)", sorted(before.values()))
        self.connection.executemany(_APPEND, sorted(map(_row_of, jobs)))
        self._note([(job.key, job.due_at, job.generation) for job in jobs], len(jobs) - len(before))

    def cancel(self, keys: Sequence[str], generation: int) -> None:
        """
        Cancel the jobs of *keys*.

        *generation* must be larger than the generation of each job in the file.
        """
        before = self._find(keys)
        self.connection.executemany("INSERT INTO gone VALUES (?, ?)", sorted(before.values()))
        self._note([(key, None, generation) for key in before], -len(before))

    def cascade(self, day: int) -> None:
        """
        Sort the jobs of *day* into the table of near jobs.
        """
        self.connection.execute(_CASCADE, {"day": day})
        self.connection.execute("DELETE FROM far WHERE day = ?", (day,))
        self.connection.execute("DELETE FROM gone WHERE day = ?", (day,))

    def count_of(self, day: int) -> int:
        """
        Count the far jobs of *day* row by row, and return their number.
        """
        counts = "SELECT (SELECT count(*) FROM far WHERE day = ?) - (SELECT count(*) FROM gone WHERE day = ?)"
        return int(self.connection.execute(counts, (day, day)).fetchone()[0])

    def _find(self, keys: Sequence[str]) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        left = set(keys)
        for run in (None, *self._runs):
            some = sorted(run.filter.within(left) if run else left)
            for start in range(0, len(some), _AT_ONCE):
                part = some[start : start + _AT_ONCE]
                statement = _FIND.format(",".join("?" * len(part)))
                for key, due_at, generation in self.connection.execute(statement, (run.number if run else 0, *part)):
                    left.discard(key)
                    if due_at is not None:
                        found[key] = (due_at // DAY_MS, generation)
        return found

    def _note(self, places: list[tuple[str, int | None, int]], more: int) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO key VALUES (0, ?, ?, ?)", sorted(places))
        self.connection.execute("UPDATE ledger SET generation = generation + 1, pending = pending + ?", (more,))
        self._shelf += len(places)
        if self._shelf >= _SHELF_MAX:
            self._shelf = 0
            self._merge([0], 0)
            while len(full := [run for run in self._runs if run.level == self._runs[0].level]) == _MERGED:
                self._runs = self._runs[_MERGED:]
                self._merge([run.number for run in full], full[0].level + 1)

    def _merge(self, numbers: list[int], level: int) -> None:
        self._last += 1
        which = ",".join(map(str, numbers))
        size = self.connection.execute(_MERGE.format(which), (self._last,)).rowcount
        self.connection.executemany("DELETE FROM key WHERE run = ?", [(number,) for number in numbers])
        self._runs.insert(0, _Run(self._last, level, size, _Filter(self._keys_of(self._last), size)))

    def _keys_of(self, number: int) -> Iterator[str]:
        return (key for (key,) in self.connection.execute("SELECT key FROM key WHERE run = ?", (number,)))


def _row_of(job: Job) -> tuple[object, ...]:
    day = job.due_at // DAY_MS
    return day, job.generation, job.due_at, job.key, job.payload, job.target, job.handler, job.first_set_at
