from __future__ import annotations

import sys

from tickwheel.jobs.model import Cancel, Job, JobQuery, Set, Settled, State
from tickwheel.testing.store_suite._base import StoreTests, everything

__all__ = ["ListTests"]

ODD_KEYS = (
    "A",
    "Ab",
    "a",
    "a\x01",
    "a b",
    "a%",
    "a_",
    "ab",
    "ae\u0301",
    "aé",
    "a\ud7ff",
    "a\ue000",
    "a\uffff",
    "a\U00010000",
    f"a{chr(sys.maxunicode)}",
    f"a{chr(sys.maxunicode)}z",
    "b",
)
"""Keys in the order of code points, chosen to show faults of UTF-16 order, LIKE and collations."""


class ListTests(StoreTests):
    def test_by_key(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(key, 0, rig.now)) for key in reversed(ODD_KEYS)])
            for limit in (1, 2, 7, 100):
                assert [job.key for job in everything(rig.store, limit=limit)] == list(ODD_KEYS)

    def test_page_is_full(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(key, 0, rig.now)) for key in "abcd"])
            page = rig.store.page(JobQuery(limit=2))
            assert [job.key for job in page.jobs] == ["a", "b"]
            page = rig.store.page(JobQuery(limit=2, cursor=page.cursor))
            assert [job.key for job in page.jobs] == ["c", "d"]
            assert page.cursor is None or rig.store.page(JobQuery(limit=2, cursor=page.cursor)).jobs == ()

    def test_prefix(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(key, 0, rig.now)) for key in ODD_KEYS])
            for prefix in ("a", "a%", "a_", "a\ud7ff", f"a{chr(sys.maxunicode)}", "b", "c", "ab "):
                expected = [key for key in ODD_KEYS if key.startswith(prefix)]
                for limit in (1, 100):
                    assert [job.key for job in everything(rig.store, prefix=prefix, limit=limit)] == expected

    def test_state(self) -> None:
        with self.rig() as rig:
            rig.pending("p1")
            rig.running("r1")
            rig.dead("d1")
            rig.pending("p2")
            rig.running("r2")
            rig.dead("d2")
            for state, keys in (
                (State.PENDING, ["p1", "p2"]),
                (State.RUNNING, ["r1", "r2"]),
                (State.DEAD, ["d1", "d2"]),
                (None, ["d1", "d2", "p1", "p2", "r1", "r2"]),
            ):
                for limit in (1, 10):
                    jobs = everything(rig.store, state=state, limit=limit)
                    assert [job.key for job in jobs] == keys
                    assert all(state in (None, job.state) for job in jobs)

    def test_due_range(self) -> None:
        with self.rig() as rig:
            for after in (1_000, 2_000, 3_000):
                rig.pending(f"key {after}", after)
            found = everything(rig.store, due_from=rig.now + 1_000, due_until=rig.now + 3_000, limit=1)
            assert [job.key for job in found] == ["key 1000", "key 2000"]

    def test_handler(self) -> None:
        with self.rig() as rig:
            rig.store.apply(
                [Set(Job(f"{i}", 0, rig.now + i, handler="even" if i % 2 == 0 else "odd")) for i in range(10)]
            )
            assert len(everything(rig.store, handler="even", limit=2)) == 5
            assert everything(rig.store, handler="nobody") == []
            found = everything(rig.store, handler="odd", state=State.PENDING, due_from=rig.now + 4, prefix="7")
            assert [job.key for job in found] == ["7"]

    def test_last_generation(self) -> None:
        with self.rig() as rig:
            for n in range(3):
                before = rig.store.last_generation()
                first = rig.pending(f"first {n}")
                assert first.generation > before
                assert rig.store.last_generation() >= first.generation
                moved = rig.move(first.key, 5_000).job
                assert moved is not None
                assert moved.generation > first.generation
                assert rig.store.last_generation() >= moved.generation
                rig.cancel(first.key)
                assert rig.store.last_generation() >= moved.generation

    def test_parts_and_target(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(key, 0, rig.now)) for key in ODD_KEYS])
            for part in ("a", "%", "_", " b", "\u0301", "\U00010000", "A", "zz"):
                expected = [key for key in ODD_KEYS if part in key]
                for limit in (1, 100):
                    assert [job.key for job in everything(rig.store, contains=part, limit=limit)] == expected
            rule, far = "every 5 s", rig.now + 10**9
            rig.settle(rig.running("dead 1"), Settled.DEAD, attempt=1, error="timed out: 50% \u00e4")
            rich = rig.running("dead 2", recurrence=rule, expires_at=far, target="log", handler="h")
            rig.settle(rich, Settled.DEAD, attempt=1, error="refused: 50_")
            rig.settle(rig.running("again"), Settled.AGAIN, attempt=1, error="timed out: once", due_at=far)
            for error, keys in (
                ("timed out", ["again", "dead 1"]),
                ("50% \u00e4", ["dead 1"]),
                ("50_", ["dead 2"]),
                ("Timed", []),
            ):
                for limit in (1, 100):
                    found = everything(rig.store, error=error, limit=limit)
                    assert [job.key for job in found] == keys
            odd = {"text": "50% \u00e4".encode(), "bytes": b"\x00\xff50_\x00", "json": b'{"number":17}', "none": b""}
            rig.store.apply([Set(Job(key, 0, rig.now, payload=payload)) for key, payload in odd.items()])
            for inner in (b"50", b"\xc3\xa4", b"\xff", b"50_\x00", b'"number":17', b"17}", b"NUMBER"):
                for limit in (1, 100):
                    found = everything(rig.store, payload=inner, limit=limit)
                    assert [job.key for job in found] == sorted(key for key in odd if inner in odd[key])
            rig.store.apply([Cancel(key) for key in odd])
            assert [job.key for job in everything(rig.store, target="log")] == ["dead 2"]
            assert everything(rig.store, target="h") == []
            assert len(everything(rig.store, target="handler")) == len(ODD_KEYS) + 2
            found = everything(rig.store, state=State.DEAD, error="timed", contains="ead", target="handler")
            assert [job.key for job in found] == ["dead 1"]
            running = rig.running("runs", target="log", handler="h")
            found = everything(rig.store, state=State.RUNNING, contains="un", target="log")
            assert [job.key for job in found] == [running.key]

    def test_list_recurring(self) -> None:
        with self.rig() as rig:
            rig.store.apply([Set(Job(f"once {i}", 0, rig.now + i)) for i in range(30)])
            rule = "every 5 s"
            rig.pending("often 1", recurrence=rule)
            rig.running("often 2", recurrence=rule)
            rig.settle(rig.running("often 3", recurrence=rule), Settled.DEAD, attempt=1, error="x")
            rig.pending("often 4", recurrence=rule, handler="h")
            rig.pending("often 5", recurrence=rule)
            rig.pending("often 5")
            rig.pending("once 7", recurrence=rule)
            for limit in (1, 100):
                found = everything(rig.store, recurring=True, limit=limit)
                assert [job.key for job in found] == ["often 1", "often 2", "often 3", "often 4", "once 7"]
                assert {job.recurrence for job in found} == {rule}
            assert len(everything(rig.store)) == 35
            for state, keys in ((State.RUNNING, ["often 2"]), (State.DEAD, ["often 3"])):
                assert [job.key for job in everything(rig.store, recurring=True, state=state)] == keys
            found = everything(rig.store, recurring=True, prefix="often", handler="h")
            assert [job.key for job in found] == ["often 4"]
            rig.cancel("often 1")
            assert [job.key for job in everything(rig.store, recurring=True, prefix="often 1")] == []

    def test_changes_during_the_listing(self) -> None:
        with self.rig() as rig:
            lasting = [f"{i:03} stays" for i in range(60)]
            rig.store.apply([Set(Job(key, 0, rig.now + 1)) for key in lasting])
            rig.store.apply([Set(Job(f"{i:03} goes", 0, rig.now + 1)) for i in range(60)])
            met: list[str] = []
            cursor = None
            for turn in range(1_000):
                page = rig.store.page(JobQuery(limit=7, cursor=cursor))
                met += [job.key for job in page.jobs]
                cursor = page.cursor
                if cursor is None:
                    break
                rig.cancel(f"{turn * 5 % 60:03} goes")
                rig.set(f"{turn * 11 % 60:03} comes", turn)
                rig.move(lasting[turn * 7 % 60], turn)
                job = rig.store.get(lasting[turn * 3 % 60])
                if job is not None and job.state is State.PENDING:
                    rig.begin(job)
            assert cursor is None
            assert sorted(key for key in met if key.endswith("stays")) == lasting
            assert len(met) == len(set(met))
