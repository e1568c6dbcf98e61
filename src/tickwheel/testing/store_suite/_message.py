"""
After its first attempt, a run of a job keeps its message id, even if the generation or due time of the job changes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Adopt, Job, Move, Outcome, Redate, RetryPolicy, Set, Settled
from tickwheel.jobs.recurrence import Interval, Misfire, Overlap, Recurrence
from tickwheel.testing.store_suite._base import Rig, StoreTests

HOUR: Final = 3_600_000
_RULES: Final = (None, Misfire.ONCE, Misfire.ALL)
_NEAR: Final = 5_000
_FAR: Final = 30 * 24 * HOUR


class MessageTests(StoreTests):
    def test_wanted_now(self) -> None:
        for how in (_run_now, _moved_to_now, _moved_back, _twice, _together):
            self._check_kept(how)

    def test_put_off(self) -> None:
        self._check_kept(lambda rig, job: _move(rig, job, _NEAR + 17))
        self._check_kept(lambda rig, job: _move(rig, job, _FAR + 17))
        with self.rig() as rig:
            for rule in _RULES[1:]:
                before = _tried(rig, f"another run {rule}", rule, 1)
                after = _move(rig, before, HOUR)
                assert message_id_of(after) != message_id_of(before)
                assert after.sent_as is None

    def test_by_a_clock_that_was_set(self) -> None:
        for step in (-HOUR, HOUR):
            self._check_kept(partial(_redated, step=step))

    def test_from_another_store(self) -> None:
        self._check_kept(_adopted)
        with self.rig() as rig:
            fresh = rig.do(Adopt(Job("fresh", 5, rig.now, first_set_at=7))).job
            assert fresh is not None
            assert fresh.sent_as is None

    def test_another_policy(self) -> None:
        """
        If a series is set again, its pending run keeps the message id, unless the payload has changed.
        """
        with self.rig() as rig:
            for rule in _RULES[1:]:
                for attempt in (0, 1):
                    before = _tried(rig, f"{rule} {attempt}", rule, attempt)
                    wanted = Job(before.key, 0, before.due_at, b"1", handler="h", retry=RetryPolicy(attempts=3))
                    after = rig.do(Set(_recurring(wanted, rule, rig.now))).job
                    assert after is not None
                    assert after.generation > before.generation
                    assert message_id_of(after) == message_id_of(before)
                    other = Job(before.key, 0, before.due_at, b"2", handler="h", retry=RetryPolicy(attempts=3))
                    assert message_id_of(_set(rig, other, rule)) not in {message_id_of(before), message_id_of(after)}
            before = _tried(rig, "once", None, 1)
            for payload, is_same in ((b"1", True), (b"2", False)):
                wanted = Job("once", 0, before.due_at, payload, handler="h", first_set_at=before.first_set_at)
                after = rig.do(Set(wanted, if_due_at=before.due_at)).job
                assert after is not None
                assert (message_id_of(after) == message_id_of(before)) is is_same
                assert after.attempt == 1

    def test_what_comes_after(self) -> None:
        with self.rig() as rig:
            seen: set[str] = set()
            for name in ("next run", "replayed", "set again"):
                before = _run_now(rig, _tried(rig, name, Misfire.ONCE if name == "next run" else None, 1))
                seen.add(message_id_of(before))
                assert rig.begin(before) is Outcome.BEGUN
                if name == "next run":
                    after = rig.settle(before, due_at=rig.now + HOUR).job
                elif name == "replayed":
                    dead = rig.settle(before, Settled.DEAD, attempt=1, error="it broke").job
                    assert dead is not None
                    assert message_id_of(dead) == message_id_of(before)
                    after = rig.replay(name).job
                else:
                    assert rig.settle(before, Settled.AGAIN, attempt=1, due_at=rig.now + _NEAR).job is not None
                    after = rig.pending(name)
                assert after is not None
                assert after.sent_as is None
                seen.add(message_id_of(after))
            fresh = rig.pending("fresh")
            moved = rig.move("fresh", _NEAR).job
            assert moved is not None
            assert (moved.sent_as, fresh.sent_as) == (None, None)
            assert len(seen) == 6

    def _check_kept(self, change: Callable[[Rig, Job], Job]) -> None:
        with self.rig() as rig:
            for rule in _RULES:
                for attempt in (0, 2):
                    before = _tried(rig, f"{rule} {attempt}", rule, attempt)
                    wanted = message_id_of(before)
                    for _ in range(2):
                        after = change(rig, before)
                        assert rig.get(before.key) == after
                        assert message_id_of(after) == wanted, (rule, attempt)
                        assert rig.begin(after) is Outcome.BEGUN
                        again = rig.settle(after, Settled.AGAIN, attempt=1, due_at=rig.now + _NEAR, error="why").job
                        assert again is not None
                        assert message_id_of(again) == wanted
                        before = again


def _recurring(job: Job, rule: Misfire | None, anchor: int) -> Job:
    fields = {name: getattr(job, name) for name in ("key", "due_at", "payload", "handler", "retry", "first_set_at")}
    text = None if rule is None else Recurrence(Interval(anchor, HOUR), rule, overlap=Overlap.SKIP).to_text()
    return Job(generation=0, recurrence=text, **fields)


def _set(rig: Rig, job: Job, rule: Misfire | None) -> Job:
    found = rig.do(Set(_recurring(job, rule, rig.now))).job
    assert found is not None
    return found


def _tried(rig: Rig, key: str, rule: Misfire | None, attempt: int) -> Job:
    retry = RetryPolicy(attempts=9)
    job = _set(rig, Job(key, 0, rig.now, b"1", handler="h", retry=retry, first_set_at=rig.now - 3), rule)
    assert rig.begin(job) is Outcome.BEGUN
    text = job.recurrence
    if text is not None:
        text = Recurrence.from_text(text).postponed(key, job.due_at, job.due_at).to_text()
    after = rig.settle(job, Settled.AGAIN, attempt=attempt, due_at=rig.now + _NEAR, recurrence=text).job
    assert after is not None
    assert message_id_of(after) == message_id_of(job)
    return after


def _run_now(rig: Rig, job: Job) -> Job:
    return _done(rig, Move(job.key, rig.now + 1, keeps_next=True))


def _moved_to_now(rig: Rig, job: Job) -> Job:
    return _move(rig, job, 1)


def _moved_back(rig: Rig, job: Job) -> Job:
    return _move(rig, job, -2 * HOUR)


def _twice(rig: Rig, job: Job) -> Job:
    return _run_now(rig, _run_now(rig, job))


def _together(rig: Rig, job: Job) -> Job:
    moves = [Move(job.key, rig.now + after, keeps_next=keeps) for after, keeps in ((9, False), (1, True))]
    after = rig.store.apply(moves)[-1].job
    assert after is not None
    return after


def _move(rig: Rig, job: Job, after: int) -> Job:
    return _done(rig, Move(job.key, rig.now + after))


def _redated(rig: Rig, job: Job, step: int) -> Job:
    return _done(rig, Redate(job, rig.lease(job.key).epoch, job.due_at + step, job.recurrence))


def _adopted(rig: Rig, job: Job) -> Job:
    rig.cancel(job.key)
    after = rig.do(Adopt(job)).job
    assert after is not None
    return after


def _done(rig: Rig, write: Move | Redate) -> Job:
    answer = rig.do(write)
    assert answer.outcome is Outcome.MOVED
    assert answer.job is not None
    return answer.job
