"""
Tests of Claim, which begins jobs in the transaction that sets them. Only stores with `claims_sets` support it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tickwheel.jobs.model import (
    Answer,
    Cancel,
    Claim,
    Claimed,
    Job,
    Move,
    Outcome,
    Resume,
    RetryPolicy,
    Set,
    SetPause,
    Settle,
    State,
    Write,
)
from tickwheel.testing.store_suite._base import OWNER, Rig, StoreTests

_COUNT = 300


class ClaimTests(StoreTests):
    def test_a_new_job_begins_as_it_is_set(self) -> None:
        with self.rig() as rig:
            jobs = _jobs(rig)
            *answers, claimed = _claim(rig, [Set(job) for job in jobs])
            for index, (job, answer) in enumerate(zip(jobs, answers, strict=True)):
                pending = _pending(job, answer)
                assert (answer.outcome, answer.job) == (Outcome.CREATED, pending)
                begun = replace(pending, state=State.RUNNING, attempt=1)
                assert rig.get(job.key) == (begun if index in _begun(claimed) else pending)
            assert len(rig.due()) == len(jobs) - len(_begun(claimed))

    def test_a_claimed_job_is_settled(self) -> None:
        with self.rig() as rig:
            *answers, claimed = _claim(rig, [Set(job) for job in _jobs(rig)])
            if _begun(claimed):
                jobs = [answer.job for answer in answers if answer.job is not None]
                ends = rig.store.apply([Settle(job, rig.lease(job.key).epoch) for job in jobs])
                assert {answer.outcome for answer in ends} == {Outcome.SETTLED}
                assert rig.counts() == (0, 0, 0)

    def test_only_chosen_jobs_begin(self) -> None:
        with self.rig() as rig:
            jobs = _jobs(rig)
            *_, claimed = _claim(rig, [Set(job) for job in jobs], [0, 2])
            assert set(_begun(claimed)) <= {0, 2}
            begun = len(_begun(claimed))
            assert rig.counts() == (len(jobs) - begun, begun, 0)

    def test_a_known_key(self) -> None:
        """
        A new job is not claimed if its key had a job before, or if its batch later replaces or cancels the new job.
        """
        with self.rig() as rig:
            rig.pending("known")
            due = rig.now - 1
            writes: list[Write] = [Set(Job(key, 0, due)) for key in ("known", "twice", "gone", "new")]
            *_, claimed = _claim(rig, [*writes, Set(Job("twice", 0, due + 5)), Cancel("gone")], range(4))
            assert set(_begun(claimed)) <= {3}
            assert rig.get("known").state is rig.get("twice").state is State.PENDING
            assert rig.get("twice").due_at == due + 5
            assert rig.store.get("gone") is None

    def test_a_job_that_a_later_write_of_the_batch_changes(self) -> None:
        """
        If a later write of the batch pauses, moves or resumes a claimed job, the change stays and the job does not run.
        """
        with self.rig() as rig:
            due = rig.now - 1
            writes: list[Write] = [Set(Job(key, 0, due)) for key in ("paused", "moved", "resumed", "new")]
            writes += [SetPause("paused", "me", ""), Move("moved", due + 5), SetPause("resumed", "me", "")]
            writes += [Resume("resumed")]
            *answers, claimed = _claim(rig, writes, range(4))
            assert {answer.outcome for answer in answers[:4]} == {Outcome.CREATED}
            assert set(_begun(claimed)) <= {3}
            assert rig.get("paused").is_paused
            assert rig.get("moved").due_at == due + 5
            assert {rig.get(key).state for key in ("paused", "moved", "resumed")} == {State.PENDING}
            assert sum(rig.counts()) == 4

    def test_an_outdated_epoch(self) -> None:
        with self.rig() as rig:
            jobs = _jobs(rig)
            for turn, step in enumerate((-1, 1)):
                writes = [Set(replace(job, key=f"{job.key} {turn}")) for job in jobs]
                *answers, claimed = _claim(rig, writes, epoch=rig.lease("a").epoch + step)
                assert {answer.outcome for answer in answers} == {Outcome.CREATED}
                assert claimed.outcome is Outcome.NOT_OWNER
            assert rig.counts() == (2 * len(jobs), 0, 0)

    def test_the_next_owner(self) -> None:
        with self.rig() as rig:
            *_, claimed = _claim(rig, [Set(job) for job in _jobs(rig)])
            if not _begun(claimed):
                return
            rig.store.release(OWNER)
            (lease,) = rig.store.acquire("the next owner")
            assert lease.rescued == len(_begun(claimed))
            assert {(job.attempt, job.state) for job in rig.due()} == {(1, State.PENDING)}

    def test_many_claims_at_once(self) -> None:
        with self.rig() as rig:
            jobs = [Job(f"{number}", 0, rig.now - number % 3) for number in range(_COUNT)]
            *_, claimed = _claim(rig, [Set(job) for job in jobs])
            begun = len(_begun(claimed))
            assert rig.counts() == (_COUNT - begun, begun, 0)


def _jobs(rig: Rig) -> list[Job]:
    due = rig.now - 1
    kept = RetryPolicy(attempts=7)
    return [Job("a", 0, due), Job("b", 0, due, b"1", retry=kept, expires_at=due + 60_000), Job("c", 0, due - 5)]


def _claim(
    rig: Rig, writes: Sequence[Write], chosen: Sequence[int] | None = None, epoch: int | None = None
) -> list[Answer]:
    """
    Apply *writes*, and claim those with the indexes *chosen* (None: all), if the store can claim.
    """
    if not rig.store.abilities.claims_sets:
        return [*rig.store.apply(writes), Answer(Outcome.NOT_OWNER)]
    indexes = range(len(writes)) if chosen is None else chosen
    claim = Claim("a", rig.lease("a").epoch if epoch is None else epoch, list(indexes))
    answers = rig.store.apply([*writes, claim])
    assert len(answers) == len(writes) + 1
    return answers


def _begun(answer: Answer) -> Sequence[int]:
    return answer.indexes if isinstance(answer, Claimed) else ()


def _pending(job: Job, answer: Answer) -> Job:
    assert answer.job is not None
    return replace(job, generation=answer.job.generation, first_set_at=answer.job.first_set_at)
