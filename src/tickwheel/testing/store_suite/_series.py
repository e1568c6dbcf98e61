"""
If a recurring job is set again, an overdue run is kept. If the rule is the same, the next run is kept, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tickwheel.jobs.model import ANY_ATTEMPT, Answer, AttemptState, Job, Outcome, RetryPolicy, SetMode, Settled, State
from tickwheel.jobs.recurrence import Interval, Misfire, Recurrence
from tickwheel.testing.store_suite._base import Rig, StoreTests

HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR
_KEY: Final = "series"


class SeriesTests(StoreTests):
    def test_the_same_rule(self) -> None:
        with self.rig() as rig:
            for situation in (_waits, _is_owed, _waits_for_its_retry, _was_snoozed, _is_paused, _runs):
                before = situation(rig, f"key {situation.__name__}")
                last = rig.store.last_generation()
                for after in (HOUR, 2 * HOUR):
                    answer = _set(rig, before.key, every=HOUR, anchor=after)
                    assert (answer.outcome, answer.job) == (Outcome.UNCHANGED, before), situation.__name__
                assert rig.get(before.key) == before
                if rig.store.abilities.is_private:  # a shared sequence may skip numbers
                    assert rig.store.last_generation() == last
            assert all(record.outcome != "changed" for record in rig.store.history(_KEY, None, 9))

    def test_another_payload(self) -> None:
        with self.rig() as rig:
            for situation in (_waits, _is_owed, _waits_for_its_retry, _was_snoozed, _is_paused):
                before = situation(rig, f"key {situation.__name__}")
                answer = _set(rig, before.key, payload=b"2", handler="other", retry=RetryPolicy(attempts=2))
                after = rig.get(before.key)
                assert (answer.outcome, answer.job) == (Outcome.CHANGED, after), situation.__name__
                assert (after.payload, after.handler, after.retry.attempts) == (b"2", "other", 2)
                assert (after.due_at, after.pause, after.error) == (before.due_at, before.pause, before.error)
                assert after.attempt == min(before.attempt, 1)
                assert after.generation > before.generation
                assert _named(after) == _named(before)

    def test_while_it_runs(self) -> None:
        with self.rig() as rig:
            before = _runs(rig, _KEY)
            staged = replace(before, state=State.PENDING, attempt=0)
            assert _set(rig, _KEY, payload=b"2").outcome is Outcome.TOO_LATE
            for payload in (b"2", b"1", b"3"):
                over = rig.status(_KEY, AttemptState.STARTED)
                assert _set(rig, _KEY, payload=payload, over=over).outcome is Outcome.CHANGED
                assert _set(rig, _KEY, payload=payload).outcome is Outcome.UNCHANGED
                assert replace(rig.get(_KEY), recurrence=before.recurrence) == before
            again = rig.settle(staged, Settled.AGAIN, attempt=1, due_at=rig.now + 5, error="no").job
            assert again is not None
            assert (again.payload, again.attempt, again.due_at, again.error) == (b"3", 1, rig.now + 5, "no")
            assert again.generation > before.generation
            assert rig.begin(again) is Outcome.BEGUN
            assert _set(rig, _KEY, every=2 * HOUR, payload=b"3", over=ANY_ATTEMPT).outcome is Outcome.CHANGED
            text = replace(_series(again), runs=1).to_text()
            done = rig.settle(again, Settled.DONE, due_at=rig.now + HOUR, recurrence=text).job
            assert done is not None
            assert done.attempt == 0
            rule = _series(done)
            assert (rule.runs, rule.then, rule.rule) == (1, None, Interval(2 * HOUR, rig.now + 2 * HOUR))
            assert rig.get(_KEY) == done

    def test_more_runs_while_the_last_one_lasts(self) -> None:
        with self.rig() as rig:
            for key, runs in (("more", 2), ("none", None)):
                staged = rig.running(key, 0, recurrence=_text(rig, HOUR, max_runs=1))
                assert _set(rig, key, max_runs=runs, over=ANY_ATTEMPT).outcome is Outcome.CHANGED
                after = rig.settle(staged, Settled.DONE).job
                assert after is not None
                assert (after.state, _series(after).runs) == (State.PENDING, 1)
                assert after.due_at > rig.now

    def test_a_changed_interval(self) -> None:
        """
        A changed interval counts from the instant of the last run. If the next instant has passed, the run is due now.
        """
        with self.rig() as rig:
            for every, due in ((36 * HOUR, 24 * HOUR), (13 * HOUR, HOUR), (12 * HOUR, 0), (5 * HOUR, 0)):
                key = f"every {every}"
                last = rig.now - 12 * HOUR
                rig.pending(key, 12 * HOUR, recurrence=_text(rig, DAY, anchor=last))
                job = _set(rig, key, every=every, anchor=every).job
                assert job is not None
                assert 0 <= job.due_at - (rig.now + due) < HOUR // 2, every
                rule = _series(job).rule
                assert isinstance(rule, Interval)
                assert (rule.anchor_at - last) % every == 0
            job = rig.pending("owed", -1_000, recurrence=_text(rig, DAY, anchor=rig.now - 1_000))
            answer = _set(rig, "owed", every=2 * HOUR)
            after = rig.get("owed")
            assert (answer.outcome, after.due_at) == (Outcome.CHANGED, job.due_at)
            assert _series(after).next("owed", after.due_at) == job.due_at + 2 * HOUR

    def test_the_phase(self) -> None:
        """
        If a series gets another start, its runs move by less than an interval, and the next run is not due at once.
        """
        with self.rig() as rig:
            before = _waits(rig, _KEY)
            for anchor in (before.due_at - 7 * HOUR, before.due_at + 9 * HOUR):
                answer = _set(rig, _KEY, anchor=anchor - rig.now, has_phase=True)
                assert (answer.outcome, answer.job) == (Outcome.UNCHANGED, before)
            answer = _set(rig, _KEY, anchor=-HOUR // 4, has_phase=True)
            assert answer.outcome is Outcome.CHANGED
            after = rig.get(_KEY)
            assert (after.due_at - rig.now) % HOUR == 3 * HOUR // 4
            assert after.due_at > rig.store.now_ms() - 1_000

    def test_the_end(self) -> None:
        """
        If a series is set with an end that it has reached, it is cancelled, unless a run is already due.
        """
        with self.rig() as rig:
            _waits(rig, _KEY, runs=3)
            assert _set(rig, _KEY, max_runs=5).outcome is Outcome.CHANGED
            assert (_series(rig.get(_KEY)).runs, _series(rig.get(_KEY)).max_runs) == (3, 5)
            assert _set(rig, _KEY, until=rig.now + 9 * HOUR).outcome is Outcome.CHANGED
            for end in ({"max_runs": 3}, {"until": rig.now + HOUR // 4}):
                key = f"ended by {end}"
                _waits(rig, key, runs=3)
                assert _set(rig, key, **end).outcome is Outcome.CANCELLED
                assert rig.store.get(key) is None
                _is_owed(rig, key)
                assert _set(rig, key, **end, is_over="until" in end).outcome is Outcome.CHANGED
            assert _set(rig, "new", until=rig.now - 1, is_over=True).outcome is Outcome.FINISHED
            assert rig.store.get("new") is None

    def test_modes(self) -> None:
        with self.rig() as rig:
            before = _waits(rig, _KEY, runs=3)
            assert _set(rig, _KEY, every=7, mode=SetMode.KEEP) == Answer(Outcome.KEPT, before)
            assert _set(rig, _KEY, mode=SetMode.EARLIEST) == Answer(Outcome.UNCHANGED, before)
            earlier = _set(rig, _KEY, mode=SetMode.EARLIEST, after=5).job
            assert earlier is not None
            assert (earlier.due_at, _named(earlier)) == (rig.now + 5, rig.now + 5)
            assert _series(earlier).rule == _series(before).rule
            restarted = _set(rig, _KEY, mode=SetMode.RESTART, payload=b"9")
            assert restarted.outcome is Outcome.RESTARTED
            assert _series(rig.get(_KEY)).runs == 0
            assert _set(rig, "new", mode=SetMode.RESTART).outcome is Outcome.CREATED
            running = _runs(rig, "running")
            assert _set(rig, "running", mode=SetMode.KEEP) == Answer(Outcome.KEPT, running)
            stale = _set(rig, _KEY, payload=b"8", if_generation=before.generation)
            assert stale.outcome is Outcome.WRONG_GENERATION

    def test_a_dead_series(self) -> None:
        """
        A dead series stays dead, unless it is set with a rule that has other runs.
        """
        with self.rig() as rig:
            staged = _runs(rig, _KEY)
            dead = rig.settle(replace(staged, state=State.PENDING, attempt=0), Settled.DEAD, attempt=1, error="no").job
            for fields in ({}, {"payload": b"2"}, {"misfire": Misfire.ALL}):
                assert _set(rig, _KEY, **fields) == Answer(Outcome.DEAD, dead)
            assert rig.get(_KEY) == dead
            assert _set(rig, _KEY, max_runs=7).outcome is Outcome.CREATED
            again = rig.get(_KEY)
            assert (again.state, again.error, again.attempt) == (State.PENDING, None, 0)

    def test_policies(self) -> None:
        """
        A changed jitter moves the next run. A changed misfire policy does not.
        """
        with self.rig() as rig:
            before = _waits(rig, _KEY, runs=3)
            assert _set(rig, _KEY, misfire=Misfire.ALL).outcome is Outcome.CHANGED
            assert rig.get(_KEY).due_at == before.due_at
            assert _set(rig, _KEY, misfire=Misfire.ALL, jitter_ms=60_000).outcome is Outcome.CHANGED
            after = rig.get(_KEY)
            assert after.due_at == before.due_at + _series(after).shift_ms(_KEY)
            assert (_named(after), _series(after).runs) == (before.due_at, 3)
            longer = _set(rig, _KEY, misfire=Misfire.ALL, jitter_ms=60_000, expires_ms=5_000).job
            assert longer is not None
            assert longer.expires_at == after.due_at + 5_000


def _text(rig: Rig, every: int, **fields: Any) -> str:
    anchor = fields.pop("anchor", None)
    state = ("runs", "run_at", "next_at", "nominal_at")
    facts = {name: fields.pop(name) for name in state if name in fields}
    rule = Interval(every, rig.now + every if anchor is None else anchor)
    return Recurrence(rule, fields.pop("misfire", Misfire.ONCE), **fields, **facts).to_text()


def _set(rig: Rig, key: str, *, every: int = HOUR, **fields: Any) -> Answer:
    """
    Set the series again, as a program does at its start, with a first run one interval from now.
    """
    rule = {name: fields.pop(name) for name in ("misfire", "jitter_ms", "until", "max_runs") if name in fields}
    anchor, after = fields.pop("anchor", every), fields.pop("after", every)
    length = fields.pop("expires_ms", None)
    expires_at = None if length is None else rig.now + after + length
    text = _text(rig, every, anchor=rig.now + anchor, **rule)
    fields = {"payload": b"1", "handler": "h", **fields}
    return rig.set(key, after, fields.pop("mode", SetMode.REPLACE), recurrence=text, expires_at=expires_at, **fields)


def _waits(rig: Rig, key: str, after: int = HOUR // 2, **state: Any) -> Job:
    anchor = rig.now + after - 3 * HOUR
    return rig.pending(key, after, payload=b"1", handler="h", recurrence=_text(rig, HOUR, anchor=anchor, **state))


def _is_owed(rig: Rig, key: str) -> Job:
    return _waits(rig, key, -HOUR // 4)


def _runs(rig: Rig, key: str) -> Job:
    job = _waits(rig, key, 0)
    assert rig.begin(job) is Outcome.BEGUN
    return rig.get(key)


def _waits_for_its_retry(rig: Rig, key: str) -> Job:
    return _postponed(rig, key, attempt=4, error="no")


def _was_snoozed(rig: Rig, key: str) -> Job:
    return _postponed(rig, key, attempt=0)


def _postponed(rig: Rig, key: str, **fields: Any) -> Job:
    job = _waits(rig, key, 0)
    assert rig.begin(job) is Outcome.BEGUN
    text = _series(job).postponed(key, job.due_at, job.due_at).to_text()
    again = rig.settle(job, Settled.AGAIN, due_at=rig.now + HOUR // 4, recurrence=text, **fields).job
    assert again is not None
    return again


def _is_paused(rig: Rig, key: str) -> Job:
    _waits(rig, key)
    paused = rig.pause(key, "for now").job
    assert paused is not None
    return paused


def _series(job: Job) -> Recurrence:
    return Recurrence.from_text(job.recurrence or "")


def _named(job: Job) -> int:
    return _series(job).named(job.key, job.due_at)
