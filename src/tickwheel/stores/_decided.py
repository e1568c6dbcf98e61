"""
Decides the answers to the writes of one transaction, in order. All jobs that the writes concern are in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tickwheel.jobs.model import (
    Adopt,
    Answer,
    Begin,
    Claim,
    Claimed,
    Declare,
    HistoryRecord,
    Job,
    Keep,
    Manifest,
    Outcome,
    Settle,
    Write,
    key_of,
)
from tickwheel.jobs.rules import NOT_OWNER, decide
from tickwheel.stores._entries import Changes
from tickwheel.stores._manifests import Manifests, manifest_of
from tickwheel.stores._onces import Onces
from tickwheel.stores._plan import FIRINGS
from tickwheel.stores._records import act_of, has_no_record

__all__ = ["Batch"]


class Batch:
    def __init__(
        self,
        now: int,
        jobs: Mapping[str, Job],
        generation: int,
        epoch: int | None,
        *,
        manifests: Mapping[str, Manifest],
        onces: Onces | None,
    ) -> None:
        self._now = now
        self._jobs = jobs
        self._generation = generation
        self._epoch = epoch
        self._manifests = Manifests(manifests)
        self._onces = onces
        self.changes = Changes(manifests=self._manifests.changed)
        self.records: list[HistoryRecord] = []

    def answer(self, write: Write) -> Answer:
        if isinstance(write, FIRINGS) and write.epoch != self._epoch:
            return NOT_OWNER
        known = self._known(write)
        if known is not None:
            return known
        assert not isinstance(write, (Declare, Keep, Claim))
        if isinstance(write, Adopt):
            self._raise_generation(write.job.generation)
        key = key_of(write)
        before = self._job(key)
        answer, after = decide(write, before, self._now, self._next_generation)
        if after is not before:
            self.changes.jobs[key] = after
        if self._onces is not None:
            self._onces.note(write, answer)
        if isinstance(write, Settle):
            record = None if has_no_record(answer, is_first=write.is_first) else write.record
        else:
            record = act_of(write, before, answer, self._now)
        if record is not None:
            self.records.append(record)
        return answer

    def claim(self, claim: Claim, answers: Sequence[Answer]) -> Answer:
        if claim.epoch != self._epoch:
            return NOT_OWNER
        indexes: list[int] = []
        for index in claim.indexes:
            outcome, job = answers[index].outcome, answers[index].job
            if outcome is Outcome.CREATED and job is not None and self._job(job.key) is job and job.is_scheduled:
                _, self.changes.jobs[job.key] = decide(Begin(job, claim.epoch), job, self._now, self._next_generation)
                indexes.append(index)
        return Claimed(Outcome.BEGUN, indexes=indexes)

    def _known(self, write: Write) -> Answer | None:
        answer = None
        if manifest_of(write) is not None:
            keys = write.keys if isinstance(write, Declare) else (key_of(write),)
            answer = self._manifests.answer(write, {key: self._job(key) for key in keys})
        if answer is None and self._onces is not None:
            answer = self._onces.answer(write)
        return answer

    def _job(self, key: str) -> Job | None:
        return self.changes.jobs[key] if key in self.changes.jobs else self._jobs.get(key)

    def _next_generation(self) -> int:
        self._raise_generation(self._generation + 1)
        return self._generation

    def _raise_generation(self, generation: int) -> None:
        if generation > self._generation:
            self._generation = self.changes.generation = generation
