"""
The power-cut proof: a store on a recorded disk loses power at any step, and the file is opened again.

    python tests/prove/power_cut.py --cuts 300

Every batch acknowledged before the cut must exist. The batch in progress must exist completely or not at all. The file
must be sound. Time passes between the batches, so that the store also moves jobs from the far level to the near level,
and merges its sorted runs of keys. About half of the files begin with an older schema and already have jobs. With
`--synchronous normal` or `off`, rows must be missing. The exit code is then 1.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from recorded_disk import RecordedDisk

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Begin, Cancel, Job, JobQuery, Move, Outcome, Set, Settle, Settled, State, Write
from tickwheel.jobs.rows import row_of
from tickwheel.stores.sqlite import SqliteStore, _connections, _far, _log_space, _runs, _schema
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.testing import ManualClock

__all__ = ["Image", "Result", "asked", "memory", "prove", "reopened", "store_of"]

CUTS_A_RUN = 20
BATCHES = 60
START = 1_700_000_000_000
HOUR_MS = 3_600_000
OLD = 10
"""Version of the last schema that has no sorted runs of keys."""
FEW = {"_SHELF_MAX": 20, "_SLICE": 6, "_HINTS_MIN": 150}


@dataclass(slots=True)
class Result:
    """
    The result of all cuts.
    """

    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    corrupt: int = 0
    said: tuple[str, ...] = ()

    def add(self, what: str) -> None:
        """
        Record a fault.

        Only the first few faults are kept.
        """
        self.said = (*self.said, what)[:5]


Image = dict[str, tuple[int, int, int, str]]
"""For each key, the generation, due time, attempt and state of the job."""


@dataclass(slots=True)
class Run:
    """
    One workload and its effect.

    Attributes:
        disk: The recorded disk.
        answered: For each answered batch, the number of steps on the disk before the answer, and all jobs in the store
            at that time.
    """

    disk: RecordedDisk
    answered: list[tuple[int, Image]]


def run(seed: int, synchronous: str) -> Run:
    dice = random.Random(seed)
    disk = RecordedDisk()
    answered: list[tuple[int, Image]] = []
    with tempfile.TemporaryDirectory(dir=memory()) as folder, disk.under_sqlite():
        path = Path(folder) / "jobs.db"
        clock = ManualClock(wall=START / 1000)
        if dice.random() < 0.5:
            image = _old_file(path, synchronous, dice)
            answered.append((len(disk.steps), image))
        store = store_of(path, synchronous, clock)
        with mock.patch.object(_connections, "_CHECKPOINT_PAGES", dice.choice((20, 100, 4000))):
            store.open()
            (lease,) = store.acquire("owner")
            store._connections.limit_log(dice.choice((10, 60, 4000)))  # so that checkpoints run during the workload
        answered.append((len(disk.steps), _image(store)))
        far = mock.patch.multiple(_far, _STRETCH=2, _GONE_MAX=dice.choice((-9_999, 10)))
        ahead = mock.patch.multiple(_log_space, _LEAST=dice.choice((5_000, 1 << 17)), _MOST=1 << 17)
        with mock.patch.multiple(_runs, **FEW), far, ahead:
            for _ in range(BATCHES):
                store.apply(list(_batch(store, dice, lease.epoch)))
                answered.append((len(disk.steps), _image(store)))
                clock.advance(dice.choice((0, 3_600)))
                store.renew("owner")
        store.close()
    return Run(disk, answered)


def _old_file(path: Path, synchronous: str, dice: random.Random) -> Image:
    """
    Make a file with the schema version `OLD` on the disk, and return its jobs.
    """
    connection = _connections.sqlite3.connect(path.as_uri(), timeout=5.0)
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    _schema.migrate(connection, str(path), _schema.MIGRATIONS[:OLD])
    image: Image = {}
    connection.execute("BEGIN")
    for number in range(1, dice.choice((20, 150))):
        job = Job(f"key-{number}", number, START + dice.randrange(60 * HOUR_MS), first_set_at=START - HOUR_MS)
        connection.execute(SQL["insert_job"], (0, *row_of(job), None))
        connection.execute(SQL["insert_key"], (1, job.key, job.due_at, job.generation))
        image[job.key] = (job.generation, job.due_at, 0, State.PENDING.value)
    connection.execute("UPDATE tickwheel_ledger SET generation = ?, pending = ?", (len(image), len(image)))
    connection.execute("COMMIT")
    connection.close()
    return image


def store_of(path: Path, synchronous: str, clock: ManualClock | None = None) -> SqliteStore:
    times = {} if clock is None else {"clock": clock}
    if synchronous != "off":
        return SqliteStore(path, synchronous=synchronous, **times)
    store = SqliteStore(path, **times)
    store._synchronous = "off"  # users cannot set this; it shows that the proof can fail
    return store


def _batch(store: SqliteStore, dice: random.Random, epoch: int) -> Iterator[Write]:
    jobs = store.page(JobQuery(limit=1000)).jobs
    for number in range(dice.choice((1, 1, 3, 30))):
        ahead = dice.choice((10**6, 60 * HOUR_MS))
        kind = dice.choice(("set", "set", "set", "move", "cancel", "begin", "settle"))
        key = f"key-{dice.randrange(200)}"
        known = {job.key: job for job in jobs}
        if kind == "set" or key not in known:
            yield Set(Job(key, 0, START + dice.randrange(ahead), bytes(dice.randrange(600))))
        elif kind == "move":
            yield Move(key, START + dice.randrange(ahead) + number)
        elif kind == "cancel":
            yield Cancel(key)
        elif kind == "begin":
            yield Begin(known[key], epoch)
        else:
            how = dice.choice((Settled.DONE, Settled.AGAIN, Settled.DEAD))
            yield Settle(known[key], epoch, how, 1, START if how is Settled.AGAIN else None)


def _image(store: SqliteStore) -> Image:
    page = store.page(JobQuery(limit=1000))
    jobs = list(page.jobs)
    while page.cursor is not None:
        page = store.page(JobQuery(limit=1000, cursor=page.cursor))
        jobs += page.jobs
    return {job.key: (job.generation, job.due_at, job.attempt, job.state.value) for job in jobs}


def cut(worked: Run, dice: random.Random, result: Result) -> None:
    result.cuts += 1
    at = dice.randrange(worked.answered[0][0], worked.answered[-1][0] + 1)
    files = worked.disk.after_cut(at, dice)
    before = [image for count, image in worked.answered if count <= at]
    possible = [before[-1], *(image for count, image in worked.answered if count > at)][:2]
    result.acknowledged += len(before[-1])
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        for name, content in files.items():
            if not name.endswith("-shm"):
                (Path(folder) / name).write_bytes(content)
        path = Path(folder) / "jobs.db"
        try:
            found = reopened(path)
        except (sqlite3.DatabaseError, StoreError) as error:
            result.corrupt += 1
            result.add(f"step {at}: {error}")
            return
    if found not in possible:
        missing = sum(1 for key, job in before[-1].items() if found.get(key) != job)
        result.lost += max(1, missing)
        result.add(f"step {at}: {missing} of {len(before[-1])} answered jobs are not as they were answered")


def reopened(path: Path) -> Image:
    """
    Check the file at *path*, and return its jobs.

    Raises:
        sqlite3.DatabaseError: If the file is damaged, or its tables do not agree.
    """
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("PRAGMA integrity_check").fetchall()
        if rows != [("ok",)]:
            message = f"integrity_check says {rows[:3]}"
            raise sqlite3.DatabaseError(message)
    store = SqliteStore(path)
    store.open()
    try:
        image = _image(store)
        due = {job.key: (job.generation, job.due_at) for job in store.due(0, 2**63 - 1, None, 100_000)}
        if due != {key: tuple(place) for key, (*place, _, state) in image.items() if state == "pending"}:
            message = "what is due is not what is listed"
            raise sqlite3.DatabaseError(message)
        counts = store.count()
        states = [state for *_, state in image.values()]
        if counts != {state.value: states.count(state.value) for state in State}:
            message = f"the ledger counts {counts}"
            raise sqlite3.DatabaseError(message)
        pending = [key for key, (*_, state) in image.items() if state == "pending"]
        if {answer.outcome for answer in store.apply([Move(key, START) for key in pending])} - {Outcome.MOVED}:
            message = "a key that is listed is not found"
            raise sqlite3.DatabaseError(message)
        return image
    finally:
        store.close()


def memory() -> Path | None:
    memory = Path("/dev/shm")  # noqa: S108 - the cuts are worked out, so nothing here has to survive
    return memory if memory.is_dir() else None


def prove(cuts: int, seed: int, synchronous: str = "full") -> Result:
    dice = random.Random(seed)
    result = Result()
    while result.cuts < cuts:
        worked = run(dice.getrandbits(32), synchronous)
        for _ in range(min(CUTS_A_RUN, cuts - result.cuts)):
            cut(worked, dice, result)
    return result


def asked(about: str | None) -> tuple[int, int, str]:
    """
    Return the number of cuts, the seed and the level of `synchronous` that the command line asks for.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--synchronous", choices=("full", "normal", "off"), default="full")
    options = parser.parse_args()
    return options.cuts, options.seed, options.synchronous


def main() -> int:
    cuts, seed, synchronous = asked(__doc__)
    result = prove(cuts, seed, synchronous)
    print(
        f"cuts {result.cuts}, acknowledged {result.acknowledged}, lost {result.lost}, corrupt {result.corrupt}, "
        f"synchronous {synchronous}, seed {seed}"
    )
    for line in result.said:
        print(f"  {line}", file=sys.stderr)
    return 1 if result.lost or result.corrupt else 0


if __name__ == "__main__":
    sys.exit(main())
