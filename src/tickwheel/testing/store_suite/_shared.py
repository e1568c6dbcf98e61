"""
Two store objects on the same data. One owns the jobs, and the other writes, or becomes the next owner.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tickwheel.jobs.errors import StoreInUseError
from tickwheel.jobs.model import (
    Answer,
    Begin,
    Cancel,
    Job,
    Move,
    Outcome,
    Recalled,
    Resume,
    Set,
    SetPause,
    Settle,
    State,
)
from tickwheel.jobs.once import Once
from tickwheel.stores.contract import Cursor, Store
from tickwheel.testing.store_machine import run_store_machine
from tickwheel.testing.store_suite._base import EVER, OWNER, PATIENCE_S, Rig, StoreTests, changes_of, refused


class SharedTests(StoreTests):
    def make_peer(self, store: Store) -> Store:
        """
        Return another store object, not yet open, on the data of *store*. *store* itself may be open, closed or lost.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    @contextmanager
    def peer(self, rig: Rig) -> Iterator[Store]:
        """
        Yield another open store object on the data of the rig's store.
        """
        peer = self.make_peer(rig.store)
        peer.open()
        try:
            yield peer
        finally:
            peer.close()

    def test_reopened(self) -> None:
        with self.rig() as rig:
            jobs = [rig.pending("pending", payload=b"\x00\xff", handler="h"), rig.dead("dead")]
            last = rig.pending("running")
            rig.begin(last)
            rig.store.close()
            with self.peer(rig) as peer:
                assert [peer.get(job.key) for job in jobs] == jobs
                running = peer.get("running")
                assert running is not None
                assert (running.state, running.attempt) == (State.RUNNING, 1)
                (answer,) = peer.apply([Set(Job("new", 0, 0))])
                assert answer.job is not None
                assert answer.job.generation > last.generation
                leases = peer.acquire("the next")
                assert sum(lease.rescued for lease in leases) == 1
                assert peer.count() == {"pending": 3, "running": 0, "dead": 1}
            rig.store = self.make_peer(rig.store)
            rig.store.open()
            rig.leases = {lease.shard: lease for lease in rig.store.acquire("the last")}

    def test_one_write_at_two_objects_at_once(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            if not rig.store.abilities.keeps_answers:
                return
            for number in range(20):
                write = Set(
                    Job(f"k{number % 5}", 0, rig.now + 60_000), once=Once(f"{number:032x}", "0", "0" * 32, 60_000)
                )
                start = threading.Barrier(2)
                answers: list[Answer] = []

                def ask(store: Store, write: Set = write, start: threading.Barrier = start) -> None:
                    start.wait(PATIENCE_S)
                    answers.extend(store.apply([write]))  # noqa: B023  the threads end within the iteration

                threads = [threading.Thread(target=ask, args=(store,)) for store in (rig.store, peer)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(PATIENCE_S)
                jobs = {answer.job for answer in answers}
                assert jobs == {rig.get(write.job.key)}, "both have the one job that there is"
                assert sorted(type(answer) is Recalled for answer in answers) == [False, True]

    def test_one_owner(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            if not peer.abilities.has_many_owners:
                refused(StoreInUseError, lambda: peer.acquire("a second"))
            else:
                assert peer.acquire("a second") == []
            rig.store.release(OWNER)
            leases = peer.acquire("a second")
            assert {lease.shard for lease in leases} == set(rig.leases)
            assert all(lease.epoch > rig.leases[lease.shard].epoch for lease in leases)
            peer.release("a second")
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}

    def test_others_see_the_owners(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            assert {shard.owner for shard in peer.shards()} == {OWNER}
            assert [shard.number for shard in peer.shards()] == sorted(rig.leases)
            if not peer.abilities.has_many_owners or len(rig.leases) < 2:
                return
            peer.acquire("a second")
            rig.store.renew(OWNER)  # releases the shards that exceed the owner's share
            taken = {lease.shard: lease.epoch for lease in peer.acquire("a second")}
            assert 0 < len(taken) < len(rig.leases)
            for store in (rig.store, peer):
                for shard in store.shards():
                    assert shard.owner == ("a second" if shard.number in taken else OWNER)
                    assert shard.epoch == taken.get(shard.number, rig.leases[shard.number].epoch)
            peer.release("a second")
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}

    def test_others_may_write(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            rig.pending("moved")
            rig.pending("cancelled")
            dead = rig.dead("dead")
            answers = peer.apply([Set(Job("set", 0, rig.now)), Move("moved", rig.now), Cancel("cancelled")])
            assert [answer.outcome for answer in answers] == [Outcome.CREATED, Outcome.MOVED, Outcome.CANCELLED]
            assert rig.get("set") == answers[0].job
            assert rig.get("moved") == answers[1].job
            assert rig.store.get("cancelled") is None
            assert peer.get("dead") == dead
            job = answers[0].job
            assert job is not None
            assert rig.begin(job) is Outcome.BEGUN
            (late,) = peer.apply([Cancel("set")])
            assert late.outcome is Outcome.TOO_LATE

    def test_changes_of_others(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            rig.pending("to move", 90_000)
            dead = rig.dead("to replay")
            marks = {shard: rig.changes(shard, EVER, None).mark for shard in rig.leases}
            near = rig.now + 10_000
            answers = peer.apply(
                [
                    Set(Job("near", 0, rig.now + 1)),
                    Set(Job("far", 0, rig.now + 50_000)),
                    Move("to move", rig.now + 2),
                    Set(Job("gone", 0, rig.now + 3)),
                ]
            )
            peer.apply([Cancel("gone")])
            assert dead.state is State.DEAD
            found: dict[str, Job] = {}
            later: dict[int, int] = {}
            for shard, mark in marks.items():
                changes = rig.changes(shard, near, mark)
                found |= {job.key: job for job in changes.changed}
                later[shard] = changes.mark
            assert found == {"near": answers[0].job, "to move": answers[2].job}
            rig.pending("own")  # the owner's own write may be included
            for shard, mark in later.items():
                assert all(job.key == "own" for job in rig.changes(shard, near, mark).changed)
            (answer,) = peer.apply([Set(Job("another", 0, rig.now + 4))])
            shard = rig.store.shard_of("another")
            assert answer.job in rig.changes(shard, near, later[shard]).changed

    def test_changes_of_all_shards(self) -> None:
        """
        One call returns the changes of all shards. The mark of each shard is the position from which its changes count.
        """
        with self.rig() as rig, self.peer(rig) as peer:
            near = (rig.now + 10_000, 0)
            unread = [Cursor(lease.shard, lease.epoch, near) for lease in rig.leases.values()]
            cursors = [
                replace(cursor, mark=sight.mark)
                for cursor, sight in zip(unread, rig.store.look(unread, EVER, 9, with_changes=True), strict=True)
            ]
            answers = peer.apply([Set(Job(f"{i}", 0, rig.now + i * 1_000)) for i in range(21)])
            by_shard: dict[int, list[Job]] = {}
            for answer in answers[:11]:
                assert answer.job is not None
                by_shard.setdefault(rig.store.shard_of(answer.job.key), []).append(answer.job)
            for with_changes in (False, True):
                sights = rig.store.look(cursors, EVER, 9, with_changes=with_changes)
                assert [sight.mark for sight in sights] == [cursor.mark for cursor in cursors] or with_changes
                for cursor, sight in zip(cursors, sights, strict=True):
                    wanted = by_shard.get(cursor.shard, []) if with_changes else []
                    assert sorted(sight.changed, key=lambda job: job.due_at) == wanted
                    assert sight.due == rig.store.due(cursor.shard, EVER, near, 9)
            later = rig.store.look(unread, EVER, 9, with_changes=True)
            assert [sight.changed for sight in later] == [[] for _ in unread]

    def test_resumed_by_others(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            for is_read in (False, True):
                key = f"key {is_read}"
                shard = rig.store.shard_of(key)
                mark = rig.changes(shard, EVER, None).mark
                peer.apply([Set(Job(key, 0, rig.now + 5))])
                for _ in range(3):
                    if is_read:
                        mark = rig.changes(shard, EVER, mark).mark
                    peer.apply([SetPause(key, "somebody")])
                    changes = rig.changes(shard, EVER, mark)
                    assert [job.key for job in changes.changed] == []
                    mark = changes.mark if is_read else mark
                    peer.apply([Resume(key)])
                    changes = rig.changes(shard, EVER, mark)
                    assert rig.get(key) in changes.changed
                    mark = changes.mark if is_read else mark

    def test_changes_are_told_to_the_owner_alone(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            shard = rig.store.shard_of("key")
            former = rig.leases[shard].epoch
            rig.store.release(OWNER)
            rig.leases = {lease.shard: lease for lease in rig.store.acquire("the second owner")}
            mark = rig.changes(shard, EVER, None).mark
            (answer,) = peer.apply([Set(Job("key", 0, rig.now))])
            epoch = rig.leases[shard].epoch
            for since in (mark, EVER):
                assert changes_of(peer, shard, epoch, EVER, since).changed == []
                assert changes_of(rig.store, shard, former, EVER, since).changed == []
            assert rig.changes(shard, EVER, mark).changed == [answer.job]

    def test_begins_are_the_owners(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            job = rig.running("key")
            staged = rig.pending("pending")
            for write in (Begin(staged, rig.lease("pending").epoch), Settle(job, rig.lease("key").epoch)):
                (answer,) = peer.apply([write])
                assert answer.outcome is Outcome.NOT_OWNER
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_wakes_the_owner(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            if not rig.store.abilities.has_notify:
                return
            rig.store.wait_for_change(0.0)
            woken: list[bool] = []
            thread = threading.Thread(target=lambda: woken.append(rig.store.wait_for_change(PATIENCE_S)))
            thread.start()
            peer.apply([Set(Job("key", 0, rig.now))])
            thread.join(PATIENCE_S)
            assert woken == [True]
            assert rig.store.wait_for_change(0.0) is False

    def test_own_writes_wake_nobody(self) -> None:
        with self.rig() as rig:
            rig.store.wait_for_change(0.0)
            rig.pending("key")
            assert rig.store.wait_for_change(0.0) is False

    def test_wake_and_close_end_a_wait(self) -> None:
        with self.rig() as rig:
            for end in (rig.store.wake, rig.store.close):
                woken: list[bool] = []
                thread = threading.Thread(
                    target=lambda woken=woken: woken.append(rig.store.wait_for_change(3_600)), daemon=True
                )
                thread.start()
                end()
                thread.join(PATIENCE_S)
                assert woken == [False]
            rig.store = self.make_peer(rig.store)
            rig.store.open()
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}

    def test_two_write_at_once(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            generations: list[int] = []

            def write(store: Store, name: str) -> None:
                for turn in range(40):
                    keys = [f"shared {turn % 5}", f"{name} {turn}"]
                    for answer in store.apply([Set(Job(key, 0, rig.now)) for key in keys]):
                        assert answer.job is not None
                        generations.append(answer.job.generation)

            threads = [
                threading.Thread(target=write, args=(store, name)) for store, name in ((rig.store, "a"), (peer, "b"))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert len(generations) == len(set(generations)) == 160
            assert rig.counts() == (85, 0, 0)

    def test_readers_beside_a_writer(self) -> None:
        with self.rig() as rig:
            seen: list[int] = []
            done = threading.Event()

            def read() -> None:
                while not done.is_set():
                    seen.append(rig.store.count()["pending"])

            threads = [threading.Thread(target=read) for _ in range(3)]
            for thread in threads:
                thread.start()
            for turn in range(20):
                rig.store.apply([Set(Job(f"{{{turn}}} {i}", 0, rig.now)) for i in range(50)])
            done.set()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert {count % 50 for count in seen} <= {0}
            assert rig.counts() == (1_000, 0, 0)

    def test_random_writes_and_reopening(self) -> None:
        takeovers = 0
        for seed in (11, 12, random.SystemRandom().randrange(2**32)):
            print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
            takeovers += run_store_machine(self.make_store, seed, 2_000, self.make_peer).takeovers
        assert takeovers > 3
