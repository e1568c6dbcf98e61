from __future__ import annotations

from tickwheel.jobs.model import Begin, Outcome, Settle, State
from tickwheel.testing.store_suite._base import OWNER, StoreTests


class OwnerTests(StoreTests):
    def test_renew(self) -> None:
        with self.rig() as rig:
            leases = rig.store.renew(OWNER)
            assert {lease.shard: lease.epoch for lease in leases} == {
                shard: lease.epoch for shard, lease in rig.leases.items()
            }
            for lease in leases:
                assert lease.granted_at >= rig.leases[lease.shard].granted_at > 0
                assert lease.rescued == 0

    def test_renew_by_another(self) -> None:
        with self.rig() as rig:
            assert rig.store.renew("the second owner") == []

    def test_acquire_twice(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            again = {lease.shard: lease.epoch for lease in rig.store.acquire(OWNER)}
            assert again == {shard: lease.epoch for shard, lease in rig.leases.items()}
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_release(self) -> None:
        with self.rig() as rig:
            job, staged = rig.running("running"), rig.pending("pending")
            rig.store.release(OWNER)
            assert rig.settle(job).outcome is Outcome.NOT_OWNER
            assert rig.begin(staged) is Outcome.NOT_OWNER
            assert rig.store.renew(OWNER) == []
            assert rig.set("other").outcome is Outcome.CREATED
            rig.store.release(OWNER)

    def test_release_by_another(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            rig.store.release("the second owner")
            for ask in (rig.store.renew, rig.store.acquire):
                kept = {lease.shard: lease.epoch for lease in ask(OWNER)}
                assert kept == {shard: lease.epoch for shard, lease in rig.leases.items()}
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_nodes(self) -> None:
        """
        An owner is listed as a node until it releases its leases.
        """
        with self.rig() as rig:
            rig.store.report(OWNER, {"fired": 1})
            (node,) = rig.store.nodes()
            assert node.owner == OWNER
            assert node.figures == ({"fired": 1} if rig.store.abilities.has_many_owners else None)
            rig.store.release(OWNER)
            assert rig.store.nodes() == []

    def test_shards(self) -> None:
        with self.rig() as rig:
            leases = {lease.shard: lease for lease in rig.store.renew(OWNER)}
            found = rig.store.shards()
            assert [shard.number for shard in found] == sorted(leases)
            for shard in found:
                lease = leases[shard.number]
                assert (shard.owner, shard.epoch) == (OWNER, lease.epoch)
                # Each partition has its own clock, and was asked at another moment.
                spread = 0 if rig.store.abilities.partitions == 1 else 5_000
                assert shard.until == lease.until or abs((shard.until or 0) - (lease.until or 0)) <= spread
            assert rig.store.shards() == found
            rig.store.release(OWNER)
            assert [(shard.number, shard.owner, shard.epoch, shard.until) for shard in rig.store.shards()] == [
                (shard.number, None, shard.epoch, None) for shard in found
            ]

    def test_owner_rescue(self) -> None:
        with self.rig() as rig:
            left = [rig.running(f"left {i}", i * 1_000) for i in range(5)]
            rig.pending("waiting")
            dead = rig.dead("dead")
            rig.store.release(OWNER)
            leases = {lease.shard: lease for lease in rig.store.acquire("the second owner")}
            assert sum(lease.rescued for lease in leases.values()) == 5
            for shard, lease in leases.items():
                assert lease.epoch > rig.leases[shard].epoch
            for job in left:
                found = rig.get(job.key)
                assert (found.state, found.attempt, found.generation) == (State.PENDING, 1, job.generation)
            assert rig.get("dead") == dead
            assert rig.counts() == (6, 0, 1)

    def test_zombie(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            old = rig.lease("key").epoch
            rig.store.release(OWNER)
            rig.leases = {lease.shard: lease for lease in rig.store.acquire("the second owner")}
            assert rig.do(Settle(job, old)).outcome is Outcome.NOT_OWNER
            assert rig.do(Begin(job, old)).outcome is Outcome.NOT_OWNER
            assert rig.begin(rig.get("key")) is Outcome.BEGUN
            assert rig.do(Settle(job, old)).outcome is Outcome.NOT_OWNER
            assert rig.get("key").attempt == 2
            assert rig.settle(job).outcome is Outcome.SETTLED
