from __future__ import annotations

from dataclasses import replace
from typing import Any

from tickwheel.jobs.model import AttemptState, Job, Outcome, RetryPolicy, Set, SetMode, SetPause, Settled, State
from tickwheel.testing.store_suite._base import StoreTests


class SetTests(StoreTests):
    def test_created(self) -> None:
        with self.rig() as rig:
            answer = rig.set("key")
            assert answer.outcome is Outcome.CREATED
            assert answer.job == rig.get("key")
            assert answer.job is not None
            assert answer.job.state is State.PENDING
            assert answer.job.generation > 0
            assert answer.job.first_set_at >= rig.now

    def test_all_fields_come_back(self) -> None:
        retry = RetryPolicy(7, "list", 5, 9, 0.25, (1, 2, 3))
        with self.rig() as rig:
            job = Job(
                key="all",
                generation=99,
                due_at=rig.now + 5,
                payload=bytes(range(256)),
                target="webhook",
                handler="https://example.org/hook",
                attempt=3,
                retry=retry,
                expires_at=rig.now + 50,
                recurrence="every 5 s",
                state=State.DEAD,
                error="before",
                trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                first_set_at=12345,
            )
            stored = rig.do(Set(job)).job
            assert stored is not None
            assert stored == replace(job, generation=stored.generation, state=State.PENDING)
            assert rig.get("all") == stored
            assert rig.due() == [stored]

    def test_replaced(self) -> None:
        with self.rig() as rig:
            first = rig.pending("key", 1_000, payload=b"1", error="old", attempt=2, first_set_at=77)
            answer = rig.set("key", 2_000, payload=b"2")
            assert answer.outcome is Outcome.REPLACED
            assert answer.job == rig.get("key")
            assert answer.job is not None
            assert answer.job.generation > first.generation
            assert answer.job.due_at == rig.now + 2_000
            assert (answer.job.payload, answer.job.error, answer.job.attempt) == (b"2", None, 0)
            assert answer.job.first_set_at == 77
            assert rig.counts() == (1, 0, 0)

    def test_keep(self) -> None:
        with self.rig() as rig:
            first = rig.pending("key", 1_000, payload=b"1")
            answer = rig.set("key", 500, SetMode.KEEP, payload=b"2")
            assert (answer.outcome, answer.job) == (Outcome.KEPT, first)
            assert rig.get("key") == first
            assert rig.set("other", 500, SetMode.KEEP).outcome is Outcome.CREATED

    def test_earliest(self) -> None:
        with self.rig() as rig:
            rig.pending("key", 1_000, payload=b"1")
            later = rig.set("key", 2_000, SetMode.EARLIEST, payload=b"2")
            assert later.outcome is Outcome.REPLACED
            assert (rig.get("key").due_at, rig.get("key").payload) == (rig.now + 1_000, b"2")
            rig.set("key", 300, SetMode.EARLIEST, payload=b"3")
            assert (rig.get("key").due_at, rig.get("key").payload) == (rig.now + 300, b"3")

    def test_kept_payload(self) -> None:
        with self.rig() as rig:
            assert rig.pending("key", 1_000, payload=b"0", keeps_payload=True).payload == b"0"
            rig.set("key", 2_000, payload=b"1")
            first = rig.get("key")
            again = rig.pending("key", 3_000, payload=b"null", handler="other", keeps_payload=True)
            assert again == rig.get("key")
            assert again.generation > first.generation
            assert (again.payload, again.handler, again.due_at) == (b"1", "other", rig.now + 3_000)
            rig.set("key", 9_000, SetMode.EARLIEST, payload=b"null", keeps_payload=True)
            assert (rig.get("key").payload, rig.get("key").due_at) == (b"1", rig.now + 3_000)

    def test_kept_payload_of_a_dead_job(self) -> None:
        with self.rig() as rig:
            job = rig.running("key", payload=b"1")
            rig.settle(job, Settled.DEAD, error="no")
            assert rig.pending("key", 1_000, payload=b"2", keeps_payload=True).payload == b"2"

    def test_change(self) -> None:
        with self.rig() as rig:
            job = rig.running("key", 1_000, payload=b"1", recurrence="every 5 s")
            rig.settle(job, Settled.AGAIN, due_at=rig.now + 9_000, attempt=1, error="no")
            rig.do(SetPause("key", "ada", "why"))
            before = rig.get("key")
            condition: dict[str, Any] = {"if_generation": before.generation, "if_due_at": before.due_at}
            answer = rig.set("key", 9_000, payload=b"2", recurrence="every 6 s", **condition)
            assert (answer.outcome, answer.job) == (Outcome.REPLACED, rig.get("key"))
            after = replace(before, generation=rig.get("key").generation, payload=b"2", recurrence="every 6 s")
            assert rig.get("key") == after
            assert after.generation > before.generation
            assert (after.attempt, after.error) == (1, "no")

    def test_change_of_what_is_another(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 1_000, payload=b"1")
            condition: dict[str, Any] = {"if_generation": job.generation, "if_due_at": job.due_at}
            wrong = rig.set("key", 1_000, payload=b"2", **(condition | {"if_due_at": job.due_at + 1}))
            assert (wrong.outcome, wrong.job) == (Outcome.WRONG_GENERATION, rig.get("key"))
            rig.begin(job)
            assert rig.set("key", 1_000, payload=b"2", **condition).outcome is Outcome.TOO_LATE
            started = rig.status("key", AttemptState.STARTED)
            late = rig.set("key", 1_000, payload=b"2", over=started, **condition)
            assert (late.outcome, late.job) == (Outcome.TOO_LATE, rig.get("key"))
            assert rig.get("key").state is State.RUNNING
            withdrawn = rig.status("key", AttemptState.WITHDRAWN)
            changed = rig.set("key", 1_000, payload=b"2", over=withdrawn, **condition)
            job = rig.get("key")
            assert (changed.outcome, changed.job, job.attempt) == (Outcome.REPLACED, job, 0)
            rig.begin(job)
            rig.settle(job, Settled.DEAD, error="no")
            condition["if_generation"] = job.generation
            assert rig.set("key", 1_000, payload=b"3", **condition).outcome is Outcome.WRONG_GENERATION
            assert (rig.get("key").state, rig.get("key").payload) == (State.DEAD, b"2")
            rig.cancel("key")
            assert rig.set("key", 1_000, payload=b"3", **condition).outcome is Outcome.WRONG_GENERATION
            assert rig.store.get("key") is None

    def test_maximum_wait(self) -> None:
        with self.rig() as rig:
            first = rig.pending("key", 1_000, max_wait_ms=2_500)
            limit = first.first_set_at + 2_500
            rig.set("key", 2_000, max_wait_ms=2_500)
            assert rig.get("key").due_at == rig.now + 2_000
            rig.set("key", 9_000, max_wait_ms=2_500)
            assert rig.get("key").due_at == limit
            rig.set("key", 9_000)
            assert rig.get("key").due_at == rig.now + 9_000

    def test_maximum_wait_of_the_first(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 9_000, max_wait_ms=2_000)
            assert job.due_at == job.first_set_at + 2_000

    def test_set_expiry_keeps_its_distance(self) -> None:
        with self.rig() as rig:
            rig.pending("key", 1_000)
            rig.set("key", 5_000, SetMode.EARLIEST, expires_at=rig.now + 5_700)
            assert rig.get("key").expires_at == rig.now + 1_700
            job = rig.pending("other", 9_000, max_wait_ms=2_000, expires_at=rig.now + 9_100)
            assert job.expires_at == job.due_at + 100

    def test_set_if_generation(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            wrong = rig.set("key", 1, if_generation=job.generation + 1)
            assert (wrong.outcome, wrong.job) == (Outcome.WRONG_GENERATION, job)
            assert rig.get("key") == job
            assert rig.set("key", 1, if_generation=job.generation).outcome is Outcome.REPLACED

    def test_if_there_is_none(self) -> None:
        with self.rig() as rig:
            assert rig.set("key", if_generation=0).outcome is Outcome.CREATED
            assert rig.set("key", if_generation=0).outcome is Outcome.WRONG_GENERATION
            assert rig.set("other", if_generation=5).outcome is Outcome.WRONG_GENERATION
            assert rig.store.get("other") is None
            rig.dead("late")
            assert rig.set("late", if_generation=0).outcome is Outcome.CREATED

    def test_over_a_running_job(self) -> None:
        """
        In any mode, a `Set` of a started job begins a new generation, which the old firing cannot end.
        """
        with self.rig() as rig:
            for mode in SetMode:
                old = rig.running(f"key {mode}", 1_000, first_set_at=5)
                answer = rig.set(old.key, 9_000, mode, over=rig.status(old.key, AttemptState.STARTED))
                assert answer.outcome is (Outcome.RESTARTED if mode is SetMode.RESTART else Outcome.REPLACED)
                assert answer.job is not None
                assert answer.job.due_at == rig.now + 9_000
                assert answer.job.first_set_at >= rig.now
                assert rig.settle(old).outcome is Outcome.WRONG_GENERATION
                assert rig.get(old.key) == answer.job
            assert rig.counts() == (len(SetMode), 0, 0)

    def test_over_a_dead_job(self) -> None:
        with self.rig() as rig:
            for mode in SetMode:
                key = rig.dead(f"key {mode}").key
                answer = rig.set(key, 7, mode)
                assert answer.outcome is Outcome.CREATED
                assert rig.get(key).error is None
            assert rig.counts() == (len(SetMode), 0, 0)

    def test_generations_are_never_used_twice(self) -> None:
        with self.rig() as rig:
            seen: list[tuple[int, int]] = []

            def see(job: Job | None) -> None:
                assert job is not None
                seen.append((rig.store.shard_of(job.key) % rig.store.abilities.partitions, job.generation))

            for key in ("a", "b", "a", "b"):
                see(rig.pending(key))
                see(rig.move(key, 5).job)
                rig.cancel(key)
            see(rig.settle(rig.running("a"), Settled.DONE, due_at=rig.now + 5).job)
            assert len({generation for _, generation in seen}) == len(seen)
            assert sorted(seen) == sorted(seen, key=lambda each: each[0])
            assert min(generation for _, generation in seen) > 0
