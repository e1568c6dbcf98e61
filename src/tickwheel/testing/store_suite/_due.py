from __future__ import annotations

import random
from itertools import product
from typing import Final

from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job, Set, Settled
from tickwheel.stores.contract import Cursor, LaneSet
from tickwheel.testing.store_suite._base import EVER, Rig, StoreTests


class DueTests(StoreTests):
    def test_order(self) -> None:
        with self.rig() as rig:
            rng = random.Random(7)
            rig.store.apply([Set(Job(f"{i}", 0, rig.now + rng.randrange(20) * 30_000)) for i in range(300)])
            for shard in rig.leases:
                jobs = rig.store.due(shard, EVER, None, 1_000)
                assert jobs == sorted(jobs, key=lambda job: (job.due_at, job.generation))
            assert len(rig.due()) == 300

    def test_until_is_excluded(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 1_000)
            shard = rig.store.shard_of("key")
            assert rig.store.due(shard, job.due_at, None, 10) == []
            assert rig.store.due(shard, job.due_at + 1, None, 10) == [job]

    def test_cursor(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(f"{i}", 0, rig.now + i // 40)) for i in range(200)])
            for limit in (1, 7, 40, 1_000):
                assert paged(rig, limit) == rig.due()

    def test_cursor_is_exact(self) -> None:
        with self.rig() as rig:
            first, second, third = (rig.pending(key, 1_000) for key in same_shard(rig, 3))
            shard = rig.store.shard_of(first.key)
            after = (first.due_at, first.generation)
            assert rig.store.due(shard, EVER, after, 10) == [second, third]
            rig.cancel(first.key)
            rig.cancel(second.key)
            assert rig.store.due(shard, EVER, after, 10) == [third]
            assert rig.store.due(shard, EVER, (third.due_at, third.generation), 10) == []

    def test_only_pending(self) -> None:
        with self.rig() as rig:
            rig.running("running")
            rig.dead("dead")
            retried = rig.settle(rig.running("retried"), Settled.AGAIN, attempt=1, due_at=rig.now + 5).job
            pending = rig.pending("pending")
            assert sorted(job.key for job in rig.due()) == ["pending", "retried"]
            assert {job.key: job for job in rig.due()} == {"retried": retried, "pending": pending}

    def test_any_instant(self) -> None:
        with self.rig() as rig:
            instants = [-(2**63) + 1, -1, 0, 1, 2**53, 2**63 - 2]
            rig.store.apply([Set(Job(f"at {due_at}", 0, due_at)) for due_at in reversed(instants)])
            assert sorted(job.due_at for job in rig.due(2**63 - 1)) == instants

    def test_overdue(self) -> None:
        with self.rig() as rig:
            due = [rig.pending(f"key {after}", after) for after in (-9_000, -1, 0, 1)]
            rig.running("running", -500)
            rig.dead("dead")
            found = rig.store.overdue(list(rig.leases), rig.now, 10)
            for shard in rig.leases:
                of_shard = [job for job in due[:2] if rig.store.shard_of(job.key) == shard]
                assert sorted(found.get(shard, []), key=lambda job: job.due_at) == of_shard
                assert rig.store.overdue([shard], rig.now, 1) == ({shard: of_shard[:1]} if of_shard else {})
            assert sum(map(len, found.values())) == 2

    def test_upcoming(self) -> None:
        with self.rig() as rig:
            jobs = [rig.pending(f"key {after}", after) for after in (0, 999, 1_000, 2_500, 2_999, 3_000)]
            rig.running("running", 1_500)
            assert rig.store.upcoming(rig.now + 999, rig.now + 3_000, 10) == jobs[1:5]
            assert rig.store.upcoming(rig.now, rig.now + 9_000, 2) == jobs[:2]
            assert rig.store.count_due(rig.now, 1_000, 3) == [2, 1, 2]

    def test_look(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(f"{i}", 0, rig.now + i // 3)) for i in range(200)])
            rig.running("running", 5)
            leases = sorted(rig.leases.values(), key=lambda lease: -lease.shard)
            for after, until, limit in ((0, 40, 1_000), (0, 40, 2), (20, 40, 5), (39, 40, 5), (50, 40, 5), (0, 40, 0)):
                place = (rig.now + after, 2**63 - 1)
                cursors = [Cursor(lease.shard, lease.epoch, place) for lease in leases]
                for cursor, sight in zip(
                    cursors, rig.store.look(cursors, rig.now + until, limit, with_changes=False), strict=True
                ):
                    ahead = rig.store.due(cursor.shard, EVER, place, 1_000)
                    due = [job for job in ahead if job.due_at < rig.now + until][:limit]
                    assert sight.due == due
                    assert sight.following == next(iter(ahead[len(due) :]), None)
                    assert sight.changed == []

    def test_look_at_the_end(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 1_000)
            shard = rig.store.shard_of("key")
            for until, limit, expected in (
                (EVER, 10, ([job], None)),
                (EVER + 1, 10, ([job], None)),
                (10**30, 1, ([job], None)),
                (job.due_at + 1, 1, ([job], None)),
                (job.due_at, 1, ([], job)),
                (EVER, 0, ([], job)),
            ):
                cursor = Cursor(shard, rig.leases[shard].epoch, (0, 0))
                (sight,) = rig.store.look([cursor], until, limit, with_changes=False)
                assert (sight.due, sight.following) == expected
            assert rig.store.look([], EVER, 10, with_changes=True) == []

    def test_lanes(self) -> None:
        """
        A search for due jobs can be limited to some lanes, or can leave some lanes out.
        """
        with self.rig() as rig:
            rig.store.apply(
                [
                    Set(Job(f"{i}", 0, rig.now + i // 7, target=target, handler=handler))
                    for i, (target, handler) in enumerate(HANDLERS * 6)
                ]
            )
            rig.running("running", 3)
            leases = list(rig.leases.values())
            until = rig.now + 15
            named = {lane_of(*name) for name in HANDLERS}
            sets = [
                *map(
                    LaneSet, ((), sorted(named)[:1], sorted(named)[3:6], ["webhook:https://a"], ["handler:none"], named)
                ),
                LaneSet(targets=["pull", "none"]),
                LaneSet(["handler:a"], ["webhook", "other"], ["webhook:https://a", "other:amqp://a", "handler:b"]),
                LaneSet(["pull:a"], ["pull"], ["pull:a", "pull:https://a/1"]),
            ]
            for lanes in sets:
                for inside in (False, True):
                    wanted = [
                        job
                        for lease in leases
                        for job in rig.store.due(lease.shard, until, None, 1_000)
                        if lanes.has(job.target, job.handler) is inside
                    ]
                    for limit, rows in ((1_000, 1_000), (2, 1_000), (1_000, 3), (3, 3)):
                        found = scanned(rig, until, limit, rows, lanes, inside=inside)
                        assert [job.key for job in found] == [job.key for job in wanted]
                        assert found == wanted

    def test_lanes_far_away(self) -> None:
        with self.rig() as rig:
            day = 86_400_000
            rig.store.apply([Set(Job(f"{i}", 0, rig.now + i * day // 4, handler=f"h{i % 3}")) for i in range(40)])
            others = LaneSet(targets=["handler"], others=["handler:h0", "handler:h2"])
            for lanes, inside in product((LaneSet(["handler:h1"]), others), (False, True)):
                for limit, rows in ((1_000, 1_000), (2, 1_000), (1_000, 3)):
                    found = scanned(rig, rig.now + 7 * day, limit, rows, lanes, inside=inside)
                    assert {job.key for job in found} == {f"{i}" for i in range(28) if (i % 3 == 1) is inside}
                    assert len(found) == len({job.key for job in found})

    def test_changes(self) -> None:
        """
        `changes` returns no jobs if nothing was written since *mark* (a position in the log), or if *mark* is None.
        """
        with self.rig() as rig:
            rig.pending("key")
            for shard in rig.leases:
                start = rig.changes(shard, EVER, None)
                assert start.changed == []
                assert rig.changes(shard, EVER, start.mark).changed == []


def same_shard(rig: Rig, count: int) -> list[str]:
    shard = rig.store.shard_of("key 0")
    keys = (f"key {i}" for i in range(100_000))
    return [key for key in keys if rig.store.shard_of(key) == shard][:count]


HANDLERS: Final = (
    *(("handler", name) for name in ("a", "b", "a'b", "https://a/1", "h\u00e4 \U0001f600")),
    *(("pull", name) for name in ("a", "https://a/1")),
    *(
        ("webhook", address)
        for address in (
            *("https://a/1", "https://a/2?x=://b", "https://a", "https://a?x/y", "https://a#f/", "https://a/://b"),
            *("https://a:8/1", "https://ab/1", "http://a/1", "HTTPS://a/1", "://a/b", "https:///b", "a/://b/c", "x"),
        )
    ),
    *(("other", name) for name in ("amqp://a/b", "orders", "mails")),
)


def scanned(rig: Rig, until: int, limit: int, rows: int, lanes: LaneSet, *, inside: bool) -> list[Job]:
    jobs: list[Job] = []
    for lease in rig.leases.values():
        after: tuple[int, int] | None = (0, 0)
        while after is not None:
            cursor = Cursor(lease.shard, lease.epoch, after)
            (scan,) = rig.store.scan([cursor], until, limit, lanes, inside=inside, rows=rows)
            assert len(scan.due) <= limit
            assert scan.reached is None or scan.reached > after, "it would never come to an end"
            jobs += scan.due
            after = scan.reached
    return jobs


def paged(rig: Rig, limit: int) -> list[Job]:
    jobs: list[Job] = []
    for shard in rig.leases:
        after = None
        while page := rig.store.due(shard, EVER, after, limit):
            assert len(page) <= limit
            assert after is None or (page[0].due_at, page[0].generation) > after, "it would never come to an end"
            after = (page[-1].due_at, page[-1].generation)
            jobs += page
    return jobs
