from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Move, Outcome
from tickwheel.testing.store_suite._base import StoreTests


class MoveTests(StoreTests):
    def test_moved(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 1_000, payload=b"1", attempt=2, error="so far", first_set_at=7)
            answer = rig.move("key", 4_000)
            assert answer.outcome is Outcome.MOVED
            assert answer.job is not None
            assert answer.job.generation > job.generation
            expected = replace(job, generation=answer.job.generation, due_at=rig.now + 4_000, attempt=0)
            assert answer.job == replace(expected, sent_as=message_id_of(job))
            assert rig.get("key") == answer.job
            assert rig.due() == [answer.job]

    def test_the_series_goes_along(self) -> None:
        """
        If a recurring job is moved to a later time, its scheduled run is dropped.
        """
        rule = {"anchor_at": 5, "every_ms": 7, "jitter_ms": 0, "misfire": "once", "overlap": "all", "runs": 3}
        with self.rig() as rig:
            for after, waits in ((9_000, {}), (0, {"run_at": 12})):
                key = f"key {after}"
                pending = rig.pending(key, 1_000, recurrence=_text(rule | {"run_at": 12}))
                assert rig.move(key, after).outcome is Outcome.MOVED
                found = json.loads(rig.get(key).recurrence or "")
                assert found.pop("nominal_at", rig.now + after) in (pending.due_at, rig.now + after)
                assert found == rule | waits

    def test_a_run_ahead(self) -> None:
        """
        If a recurring job is run now, its next scheduled run stays, unless that run is a retry or overdue.
        """
        with self.rig() as rig:
            facts = {"anchor_at": 5, "every_ms": 1, "jitter_ms": 0, "misfire": "once", "overlap": "all", "runs": 3}
            rule, noted = _text(facts), _text(facts | {"next_at": rig.now + 1_000})
            again = _text(facts | {"run_at": rig.now + 1_000})
            cases = ((1_000, rule, 0, noted), (0, noted, 0, noted), (2_000, noted, 0, noted), (2_000, again, 0, again))
            for after, before, attempt, expected in (*cases, (1_000, rule, 1, rule), (-1_000, rule, 0, rule)):
                if rig.store.get("key") is not None:
                    rig.cancel("key")
                rig.pending("key", after, recurrence=before, attempt=attempt)
                answer = rig.do(Move("key", rig.now, keeps_next=True))
                assert (answer.outcome, rig.get("key").recurrence) == (Outcome.MOVED, expected)
            rig.cancel("key")
            rig.pending("key", 1_000, recurrence=noted)
            assert rig.move("key", 9_000).outcome is Outcome.MOVED
            assert rig.get("key").recurrence == rule
            once = rig.pending("once", 1_000)
            assert rig.do(Move("once", rig.now, keeps_next=True)).outcome is Outcome.MOVED
            assert (rig.get("once").due_at, once.recurrence) == (rig.now, rig.get("once").recurrence)

    def test_to_the_same_instant(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", 1_000)
            answer = rig.move("key", 1_000)
            assert answer.outcome is Outcome.MOVED
            assert rig.get("key").generation > job.generation

    def test_move_expiry_keeps_its_distance(self) -> None:
        with self.rig() as rig:
            rig.pending("key", 1_000, expires_at=rig.now + 1_250)
            rig.move("key", 500)
            assert rig.get("key").expires_at == rig.now + 750

    def test_move_not_found(self) -> None:
        with self.rig() as rig:
            assert rig.move("nobody", 1) == rig.move("nobody", 2, if_generation=1)
            assert rig.move("nobody", 1).outcome is Outcome.NOT_FOUND
            dead = rig.dead("dead")
            assert rig.move("dead", 1).outcome is Outcome.NOT_FOUND
            assert rig.get("dead") == dead

    def test_move_too_late(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.move("key", 1).outcome is Outcome.TOO_LATE
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_move_if_generation(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            wrong = rig.move("key", 1, if_generation=job.generation - 1)
            assert (wrong.outcome, wrong.job) == (Outcome.WRONG_GENERATION, job)
            assert rig.move("key", 1, if_generation=job.generation).outcome is Outcome.MOVED
            assert rig.move("key", 2, if_generation=job.generation).outcome is Outcome.WRONG_GENERATION

    def test_old_generation_cannot_begin(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            moved = rig.move("key", 1).job
            assert moved is not None
            assert rig.begin(job) is Outcome.WRONG_GENERATION
            assert rig.begin(moved) is Outcome.BEGUN


def _text(rule: dict[str, Any]) -> str:
    return json.dumps(rule, sort_keys=True, separators=(",", ":"))
