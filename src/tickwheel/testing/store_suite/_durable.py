"""
Durability: an acknowledged write survives a close of the store, and a kill of the process that made the write.
"""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tickwheel.jobs.model import Job, Set, SetMode, Settled
from tickwheel.stores.contract import Store
from tickwheel.testing.store_suite._base import PATIENCE_S, Rig, everything

__all__ = ["DurabilityTests"]

_HOUR_MS = 3_600_000
_ACKNOWLEDGED = 50
"""Number of writes that a process acknowledges before it is killed."""
_TAKEOVER_S = 3 * PATIENCE_S
_EVERY_MINUTE = '{"anchor_at":1,"every_ms":60000,"jitter_ms":0,"misfire":"once"}'

_CHILD = """
import base64, pickle, sys
from tickwheel.testing.store_suite._durable import write_until_killed
make, arguments = pickle.loads(base64.b64decode(sys.argv[1]))
write_until_killed(make(*arguments), owns=sys.argv[2] == "owner")
"""


def write_until_killed(store: Store, *, owns: bool) -> None:
    store.open()
    if owns:
        _acknowledge("begun", Rig(store).running("begun").generation)
    number, due_at = 0, store.now_ms() + _HOUR_MS
    while True:
        key = f"job/{number:06}"
        (answer,) = store.apply([Set(Job(key, 0, due_at + number, b"%d" % number), SetMode.REPLACE)])
        assert answer.job is not None
        _acknowledge(key, answer.job.generation)
        number += 1


def _acknowledge(key: str, generation: int) -> None:
    sys.stdout.write(f"{key} {generation}\n")
    sys.stdout.flush()


class DurabilityTests:
    def recipe(self) -> tuple[Callable[..., Store], tuple[object, ...]]:
        """
        Return a function and its arguments. Each call must make another store object on the same data.

        The store objects must not be open. Each test calls `recipe` once, and expects empty data. Another process
        imports the function, so it must be at the top of a module on `sys.path`, and the arguments must be picklable.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    def test_what_was_acknowledged_is_there_after_a_close(self) -> None:
        make, arguments = self.recipe()
        with _opened(make(*arguments)) as store:
            rig = Rig(store)
            rig.set("plain", payload=b'{"number":1}', handler="mail")
            rig.set("series", recurrence=_EVERY_MINUTE)
            rig.set("paused")
            rig.pause("paused", "for now")
            rig.set("moved")
            rig.move("moved", _HOUR_MS)
            rig.set("gone")
            rig.cancel("gone")
            rig.dead("dead", "it broke")
            before = everything(store)
            counts = rig.counts()
        with _opened(make(*arguments)) as store:
            assert everything(store) == before
            assert [job.key for job in before] == ["dead", "moved", "paused", "plain", "series"]
            assert store.get("gone") is None
            assert (store.count()["pending"], store.count()["running"], store.count()["dead"]) == counts

    def test_what_runs_at_a_close_is_fired_again(self) -> None:
        make, arguments = self.recipe()
        with _opened(make(*arguments)) as store:
            job = Rig(store).running("begun")
        with _opened(make(*arguments)) as store:
            rig = _owning(store)
            assert rig.get("begun").generation == job.generation
            assert rig.counts() in ((1, 0, 0), (0, 1, 0))
            assert rig.settle(job, Settled.DONE).job is None

    def test_no_identity_is_used_twice(self) -> None:
        make, arguments = self.recipe()
        generations, epochs = [], []
        for _ in range(3):
            with _opened(make(*arguments)) as store:
                rig = _owning(store)
                epochs.append(min(lease.epoch for lease in rig.leases.values()))
                generations.append(rig.pending("a").generation)
                rig.cancel("a")
                epochs.append(max(lease.epoch for lease in rig.leases.values()))
        assert generations == sorted(set(generations))
        assert epochs == sorted(epochs)
        assert len(set(epochs[::2])) == len(epochs[::2])

    def test_nothing_acknowledged_is_lost_by_a_kill(self) -> None:
        make, arguments = self.recipe()
        acknowledged = _killed(make, arguments, "client")
        with _opened(make(*arguments)) as store:
            found = {job.key: job.generation for job in everything(store, prefix="job/")}
            assert acknowledged.items() <= found.items()
            assert len(found) <= len(acknowledged) + 1
            assert store.count()["pending"] == len(found)

    def test_an_owner_that_was_killed_is_succeeded(self) -> None:
        make, arguments = self.recipe()
        acknowledged = _killed(make, arguments, "owner")
        with _opened(make(*arguments)) as store:
            rig = _owning(store)
            begun = rig.get("begun")
            assert begun.generation == acknowledged.pop("begun")
            assert acknowledged.keys() <= {job.key for job in rig.due()}
            assert rig.settle(begun, Settled.DONE).job is None


@contextmanager
def _opened(store: Store) -> Iterator[Store]:
    store.open()
    try:
        yield store
    finally:
        store.close()


def _owning(store: Store) -> Rig:
    deadline = time.monotonic() + _TAKEOVER_S
    rig = Rig(store)
    while len(rig.leases) < len(store.shards()):
        assert time.monotonic() < deadline, f"{len(rig.leases)} of {len(store.shards())} shards have no other owner"
        time.sleep(0.05)  # the end of a lease sends no signal
        rig.leases |= {lease.shard: lease for lease in store.acquire("the second owner")}
    return rig


def _killed(make: Callable[..., Store], arguments: tuple[object, ...], role: str) -> dict[str, int]:
    recipe = base64.b64encode(pickle.dumps((make, arguments))).decode()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _CHILD, recipe, role]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:  # noqa: S603  our own command
        assert child.stdout is not None
        try:
            lines = [child.stdout.readline() for _ in range(_ACKNOWLEDGED)]
        finally:
            child.kill()
        lines += child.stdout.read().splitlines(keepends=True)
    acknowledged = {}
    for line in lines:
        if line.endswith("\n"):  # the last line may be incomplete
            key, generation = line.split()
            acknowledged[key] = int(generation)
    assert len(acknowledged) >= _ACKNOWLEDGED, "the process ended before it was killed"
    return acknowledged
