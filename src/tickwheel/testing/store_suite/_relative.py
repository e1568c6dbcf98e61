"""
Relative due times. A store with its own clock counts relative due times from this clock.
"""

from __future__ import annotations

import json

from tickwheel.jobs.model import Answer, Job, JobWrite, Move, Outcome, Replay, Set, SetMode
from tickwheel.testing.store_suite._base import Rig, StoreTests

_WAIT = 50_000
_GUESSES = (0, 1_000_000_000_000, 4_000_000_000_000)
"""A caller's estimates of the store's time, all of them wrong by years."""
_TEXT = {"anchor_at": 0, "every_ms": 60_000, "jitter_ms": 0, "misfire": "once"}


class RelativeTests(StoreTests):
    def test_it_counts_from_the_clock_of_the_store(self) -> None:
        with self.rig() as rig:
            for guess in _GUESSES:
                job = Job("key", 0, guess + _WAIT, expires_at=guess + _WAIT + 7)
                answer = _within(rig, Set(job, counted_from=guess))
                assert answer.job is not None
                assert answer.job.expires_at == answer.job.due_at + 7
                assert rig.get("key") == answer.job
                assert _within(rig, Move("key", guess + _WAIT, counted_from=guess)).outcome is Outcome.MOVED
                rig.dead("dead")
                assert _within(rig, Replay("dead", guess + _WAIT, counted_from=guess)).outcome is Outcome.REPLAYED
                rig.cancel("key")
                rig.cancel("dead")

    def test_an_interval_begins_there(self) -> None:
        with self.rig() as rig:
            for guess in _GUESSES:
                text = json.dumps(_TEXT | {"anchor_at": guess + _WAIT}, sort_keys=True, separators=(",", ":"))
                answer = _within(rig, Set(Job("key", 0, guess + _WAIT, recurrence=text), counted_from=guess))
                assert answer.job is not None
                assert json.loads(answer.job.recurrence or "")["anchor_at"] == answer.job.due_at
                rig.cancel("key")

    def test_the_earlier_of_two(self) -> None:
        with self.rig() as rig:
            for guess in _GUESSES:
                before = rig.pending("key", _WAIT // 2)
                write = Set(Job("key", 0, guess + _WAIT), SetMode.EARLIEST, counted_from=guess)
                assert _due_at(rig.do(write)) == before.due_at
                write = Set(Job("key", 0, guess + 10), SetMode.EARLIEST, counted_from=guess)
                assert _due_at(rig.do(write)) < before.due_at
                rig.cancel("key")


def _within(rig: Rig, write: JobWrite) -> Answer:
    before = rig.store.now_ms()
    answer = rig.do(write)
    assert before + _WAIT <= _due_at(answer) <= rig.store.now_ms() + _WAIT
    return answer


def _due_at(answer: Answer) -> int:
    assert answer.job is not None
    return answer.job.due_at
