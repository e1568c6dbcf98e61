"""
Plans a batch of writes: optimistic writes need no read, and writes on the slow path ("careful") need one first.

Most writes of a busy scheduler start a pending job or end a running job. A store applies them without reading the jobs,
in one statement for many rows. If the number of changed rows is wrong, the store commits nothing, and plans the batch
again on the slow path: each job is read, and each write is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

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
    Outcome,
    Redate,
    Set,
    SetAside,
    Settle,
    Settled,
    State,
    Write,
    key_of,
)
from tickwheel.jobs.rules import BEGUN, GONE, NOT_OWNER, created, decide, is_plain_set
from tickwheel.stores._manifests import Manifests, manifest_of
from tickwheel.stores._onces import Onces, once_of
from tickwheel.stores._records import act_of, has_no_record

__all__ = ["FIRINGS", "Differences", "Plan", "WrongGuessError"]

FIRINGS: Final = (Begin, Settle, Redate, SetAside)
"""The kinds of writes that only the owner of a shard makes. They are valid under its lease."""


class WrongGuessError(Exception):
    """
    An optimistic write did not match the stored job. The batch is rolled back, and planned again with reads.
    """


@dataclass(slots=True)
class Differences:
    """
    The changes of a batch to jobs, by the writes on the slow path (writes that need a read first).

    Attributes:
        new: Jobs whose keys had no job before.
        changed: Pairs of a job before and after its change.
        gone: Deleted jobs.
        begun: Like `new`, but to be stored as running, with their first attempt counted.
    """

    new: list[Job] = field(default_factory=list)
    changed: list[tuple[Job, Job]] = field(default_factory=list)
    gone: list[Job] = field(default_factory=list)
    begun: list[Job] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """
    The writes of one batch, grouped by kind. Stores apply `begins` first, then `ends`, then the slow path.

    Attributes:
        answers: One answer for each write; `decide` adds the answers of the slow path.
        home_of: Returns the shard of a key.
        begins: Jobs assumed to be pending. They become running, with one more attempt.
        ends: Jobs assumed to be running. They are deleted.
        writes: All writes of the batch.
        careful: The indexes of the writes on the slow path, whose jobs must be read first.
        careful_keys: The key of each write in `careful`.
        floor: New generations must be larger than this.
        away: The current shard of each job that is not in the shard of its key.
        shards: The shard of each lease, keyed by the lease's epoch.
        notable: History records to write: the write's index, the record, and True for the first try of a settle.
        manifests: Names of the manifests that must be read.
        tokens: Tokens of the requests whose stored answers must be read.
        claim: The `Claim` of jobs that the batch creates, or None.
    """

    answers: list[Answer]
    writes: Sequence[Write]
    home_of: Callable[[str], int]
    begins: list[Job] = field(default_factory=list)
    ends: list[Job] = field(default_factory=list)
    careful: list[int] = field(default_factory=list)
    careful_keys: list[str] = field(default_factory=list)
    floor: int = 0
    away: dict[str, int] = field(default_factory=dict)
    shards: dict[int, int] = field(default_factory=dict)
    notable: list[tuple[int, HistoryRecord, bool]] = field(default_factory=list)
    manifests: set[str] = field(default_factory=set)
    tokens: set[str] = field(default_factory=set)
    claim: Claim | None = None

    @classmethod
    def of(  # noqa: C901, PLR0912 - a branch for each kind of write, without calls
        cls, writes: Sequence[Write], epochs: Mapping[int, int], shard_of: Callable[[str], int], *, is_guessing: bool
    ) -> Plan:
        """
        Group *writes* by kind, and refuse writes of an owner whose epoch is not in *epochs*.

        *is_guessing* is True if writes may be planned without a read of their jobs.

        Raises:
            WrongGuessError: If a key has a write that is planned without a read, and one of another kind.
        """
        plan = cls([NOT_OWNER] * len(writes), writes, shard_of)
        answers, begins, ends, careful, keys = plan.answers, plan.begins, plan.ends, plan.careful, plan.careful_keys
        done = Settled.DONE  # a local: an enum look-up is slow
        shards = plan.shards = {epoch: shard for shard, epoch in epochs.items()}
        for index, write in enumerate(writes):
            if isinstance(write, Set):
                careful.append(index)
                keys.append(write.job.key)
                if write.under is not None:
                    plan.manifests.add(write.under.manifest)
                if write.once is not None:
                    plan.tokens.add(write.once.token)
            elif isinstance(write, FIRINGS):
                job = write.job
                shard = shards.get(write.epoch)
                if shard is None:
                    continue
                if shard != shard_of(job.key):
                    plan.away[job.key] = shard
                if isinstance(write, Begin):
                    if is_guessing:
                        begins.append(job)
                        answers[index] = BEGUN
                        continue
                elif isinstance(write, Settle):
                    if write.record is not None:
                        plan.notable.append((index, write.record, write.is_first))
                    is_over = write.how is done and write.due_at is None
                    if is_guessing and is_over and job.recurrence is None and job.manifest is None:
                        ends.append(job)
                        answers[index] = GONE
                        continue
                careful.append(index)
                keys.append(job.key)
            elif isinstance(write, Claim):
                if write.epoch in shards:
                    plan.claim = write
            else:
                careful.append(index)
                keys.append(key_of(write))
                if isinstance(write, Adopt):
                    plan.floor = max(plan.floor, write.job.generation)
                elif (name := manifest_of(write)) is not None:
                    plan.manifests.add(name)
                elif (once := once_of(write)) is not None:
                    plan.tokens.add(once.token)
        plan._check_apart()
        return plan

    def keys(self) -> list[str]:
        """
        Return the keys whose jobs must be read, sorted.
        """
        return sorted(set(self.careful_keys))

    def decide(  # noqa: C901, PLR0912  one loop, whose steps share local variables
        self,
        before: Mapping[str, Job],
        now: int,
        next_generation: Callable[[], int],
        found_in: Mapping[str, int] = MappingProxyType({}),
        *,
        manifests: Manifests | None = None,
        onces: Onces | None = None,
    ) -> Differences:
        """
        Answer the writes of the slow path in order, and return the changes to jobs.

        A `Begin` or `Settle` is valid only under the lease of the job's current shard. Any other write moves the job to
        the shard of its key. Afterwards, `away` has the current shard of each job that is not in its key's shard.
        *found_in* maps keys to the current shards of their jobs; any other job is in its key's shard. *manifests* and
        *onces* are updated in place.
        """
        after: dict[str, Job | None] = dict(before)
        away = self.away
        if away:
            for key in self.careful_keys:
                away.pop(key, None)
        away.update(found_in)
        answers, writes, known_before = self.answers, self.writes, manifests is not None or onces is not None
        claimable = frozenset[int]() if self.claim is None else frozenset(self.claim.indexes)
        claimed: list[int] = []
        for index, key in zip(self.careful, self.careful_keys, strict=True):
            write = writes[index]
            if type(write) is Set and after.get(key) is None and (index in claimable or is_plain_set(write)):
                answers[index] = new = created(write, next_generation(), now)
                after[key] = new.job
                if index in claimable:
                    claimed.append(index)
                continue
            if isinstance(write, FIRINGS) and self.shards[write.epoch] != away.get(key, self.home_of(key)):
                continue  # already answered
            if known_before and (answer := _known(write, after, manifests, onces)) is not None:
                answers[index] = answer
                continue
            assert not isinstance(write, (Declare, Keep, Claim))
            old = after.get(key)
            answers[index], after[key] = decide(write, old, now, next_generation)
            if onces is not None:
                onces.note(write, answers[index])
            if getattr(write, "actor", None) is not None:
                self.note(index, write, old, now)
            if away and after[key] != old and not _is_running(after[key]):
                away.pop(key, None)
        for key, shard in found_in.items():
            if shard != self.home_of(key) and key in away and after[key] == before[key]:
                after[key] = before[key]  # unchanged: a write would move it to its key's shard
        differences = _differences(before, after)
        if claimed:
            indexes = self._claim(claimed, differences)
            self.answers[-1] = Claimed(Outcome.BEGUN, indexes=indexes)
        return differences

    def _claim(self, chosen: Sequence[int], differences: Differences) -> list[int]:
        new = {job.generation: job for job in differences.new}
        indexes: list[int] = []
        for index in chosen:
            job = self.answers[index].job
            if job is not None and new.get(job.generation) is job:  # no later write of the batch has changed it
                del new[job.generation]
                indexes.append(index)
                differences.begun.append(job)
        differences.new = list(new.values())
        return indexes

    def note(self, index: int, write: Write, before: Job | None, now: int) -> None:
        """
        Add the history record of an answered *write*, if its `actor` requests a record.
        """
        record = act_of(write, before, self.answers[index], now)
        if record is not None:
            self.notable.append((index, record, False))

    def records(self) -> list[HistoryRecord]:
        """
        Return the history records of the batch, in the order of its writes.
        """
        answers = self.answers
        return [
            record
            for index, record, is_first in sorted(self.notable)
            if not has_no_record(answers[index], is_first=is_first)
        ]

    def _check_apart(self) -> None:
        begun, ended, rest = self.begins, self.ends, self.careful_keys
        if bool(begun) + bool(ended) + bool(rest) < 2:  # noqa: PLR2004  fewer than two kinds
            return
        met = {job.key for job in begun}
        for keys in ([job.key for job in ended], rest):
            if not met.isdisjoint(keys):
                raise WrongGuessError
            met.update(keys)


def _known(
    write: Write, jobs: Mapping[str, Job | None], manifests: Manifests | None, onces: Onces | None
) -> Answer | None:
    answer = None if onces is None else onces.answer(write)
    return manifests.answer(write, jobs) if answer is None and manifests is not None else answer


def _is_running(job: Job | None) -> bool:
    return job is not None and job.state is State.RUNNING


def _differences(before: Mapping[str, Job], after: Mapping[str, Job | None]) -> Differences:
    differences = Differences()
    if not before:
        differences.new += [job for job in after.values() if job is not None]
        return differences
    for key, job in after.items():
        old = before.get(key)
        if job is old:
            continue
        if job is None:
            if old is not None:
                differences.gone.append(old)
        elif old is None:
            differences.new.append(job)
        else:
            differences.changed.append((old, job))
    return differences
