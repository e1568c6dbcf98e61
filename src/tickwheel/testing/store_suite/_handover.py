"""
The handover of a shard while its jobs run. Running jobs stay with the owner that began them.
"""

from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import Begin, Cancel, Move, Outcome, Settle, Settled
from tickwheel.stores.contract import Lease, Store
from tickwheel.testing.store_suite._base import EVER, OWNER, Rig
from tickwheel.testing.store_suite._shared import SharedTests


class HandoverTests(SharedTests):
    def test_what_runs_stays_with_its_owner(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            if not peer.abilities.has_many_owners or len(rig.leases) < 2:
                return
            jobs = [rig.pending(f"key {number}", handler="h") for number in range(100)]
            epochs = {job.key: rig.lease(job.key).epoch for job in jobs}
            running, staged = jobs[:60], jobs[60:]
            assert {rig.begin(job) for job in running} == {Outcome.BEGUN}
            assert {rig.store.shard_of(job.key) for job in running} == set(rig.leases)
            own, others = hand_over(rig, peer)
            gone = {lease.shard for lease in others}
            assert 0 < len(gone) < len(rig.leases)
            assert [lease.rescued for lease in others] == [0] * len(others)
            assert {lease.epoch for lease in own} == set(epochs.values())
            is_tail = rig.store.abilities.is_tail
            assert [lease.shard for lease in own if not is_tail(lease.shard)] == sorted(set(rig.leases) - gone)
            assert not any(is_tail(shard) for shard in rig.leases)
            assert rig.counts() == (40, 60, 0)
            for job in staged:  # jobs that have not begun belong to the new owner
                is_gone = rig.store.shard_of(job.key) in gone
                outcome = Outcome.NOT_OWNER if is_gone else Outcome.BEGUN
                assert rig.do(Begin(job, epochs[job.key])).outcome is outcome
                if is_gone:
                    epoch = next(lease.epoch for lease in others if lease.shard == rig.store.shard_of(job.key))
                    assert peer.apply([Begin(job, epoch)])[0].outcome is Outcome.BEGUN
                    assert peer.apply([Settle(job, epoch)])[0].outcome is Outcome.SETTLED
            ends = ((Settled.DONE, None), (Settled.AGAIN, rig.now + 7), (Settled.DEAD, None), (Settled.DONE, rig.now))
            moved = [job for job in running if rig.store.shard_of(job.key) in gone]
            for number, job in enumerate(moved):
                how, due_at = ends[number % 4]
                settle = Settle(job, epochs[job.key], how, 1, due_at, "an error" if how is Settled.DEAD else None)
                assert rig.do(replace(settle, epoch=settle.epoch + 1_000)).outcome is Outcome.NOT_OWNER
                assert rig.do(settle).outcome is Outcome.SETTLED
            due = {job.key for lease in others for job in peer.due(lease.shard, EVER, None, 100)}
            assert due == {job.key for number, job in enumerate(moved) if ends[number % 4][1] is not None}
            kept = rig.store.renew(OWNER)
            assert {lease.shard for lease in kept} == set(rig.leases) - gone
            peer.release("a second")
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}

    def test_what_ran_is_rescued_after_its_owner(self) -> None:
        with self.rig() as rig, self.peer(rig) as peer:
            if not peer.abilities.has_many_owners or len(rig.leases) < 2:
                return
            jobs = [rig.running(f"key {number}") for number in range(60)]
            hand_over(rig, peer)
            rig.store.release(OWNER)
            leases = {lease.shard: lease for lease in peer.acquire("a second")}
            assert sum(lease.rescued for lease in leases.values()) == len(jobs)
            assert rig.counts() == (60, 0, 0)
            assert rig.store.upcoming(0, EVER, 100) == sorted(
                map(rig.get, [job.key for job in jobs]), key=lambda job: (job.due_at, job.generation)
            )
            assert sum(rig.store.count_due(rig.now, 60_000, 2)) == len(jobs)
            found = {job.key: lease for lease in leases.values() for job in peer.due(lease.shard, EVER, None, 100)}
            assert len(found) == len(jobs)
            overdue = peer.overdue(list(leases), EVER, 100)
            assert {job.key: shard for shard, each in overdue.items() for job in each} == {
                key: lease.shard for key, lease in found.items()
            }
            for number, job in enumerate(jobs):
                lease = found[job.key]
                if number % 3 == 0:
                    assert rig.do(Cancel(job.key)).outcome is Outcome.CANCELLED
                elif number % 3 == 1:
                    assert rig.do(Move(job.key, rig.now)).outcome is Outcome.MOVED
                else:
                    assert peer.apply([Begin(job, lease.epoch)])[0].outcome is Outcome.BEGUN
                    assert peer.apply([Settle(job, lease.epoch)])[0].outcome is Outcome.SETTLED
            assert rig.counts() == (20, 0, 0)
            assert {lease.shard for lease in peer.renew("a second")} == set(rig.leases)
            peer.release("a second")
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}

    def test_questions_about_what_was_left(self) -> None:
        """
        The node that runs an attempt answers requests about the attempt, even if the node has lost the shard.
        """
        with self.rig() as rig, self.peer(rig) as peer:
            if not peer.abilities.has_many_owners or len(rig.leases) < 2:
                return
            jobs = [rig.get(rig.running(f"key {number}").key) for number in range(60)]
            assert peer.request_withdrawal(jobs) == set()
            own, others = hand_over(rig, peer)
            assert peer.request_withdrawal(jobs) == set()
            assert {job.key for job in rig.store.withdrawal_requests([lease.shard for lease in own])} == {
                job.key for job in jobs
            }
            assert peer.withdrawal_requests([lease.shard for lease in others]) == []
            rig.store.release(OWNER)
            assert peer.request_withdrawal(jobs) == {job.generation for job in jobs}
            peer.release("a second")
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}


def hand_over(rig: Rig, peer: Store) -> tuple[list[Lease], list[Lease]]:
    """
    Let a second owner claim shards through *peer*. Return the leases of the first owner and of the second.
    """
    peer.acquire("a second")
    own = rig.store.renew(OWNER)
    return own, peer.acquire("a second")
