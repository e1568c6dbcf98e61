"""
Arbitration: the answers `cancelled`, `moved`, `replaced` and `paused` promise that the job does not start.

The start of an attempt makes no commit, so the store cannot see it. The store answers TOO_LATE as soon as the attempt
is claimed. The job's owner knows whether the attempt has started. The write is repeated with the status from the owner:

    owner of the job               source of the status
    this process                   its memory, at once: this process can withdraw an attempt that has not started
    another process                a withdrawal request, for which only the caller waits
    no process                     the attempt is cut off and cannot start any more

An attempt is claimed only while the job is due within milliseconds, waits for a worker, or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tickwheel.host.withdrawal_requests import WithdrawalRequests, with_status
from tickwheel.jobs.model import Answer, AttemptStatus, Job, Outcome, Write
from tickwheel.jobs.rules import is_undecided

__all__ = ["Done", "LocalAttempts", "UndecidedBatch", "WithdrawalArbiter", "has_late"]

Done: TypeAlias = Callable[[list[Answer] | Exception], object]
"""A callback that gets the answers to writes that were queued together, or their error. It never blocks or raises."""

Commit: TypeAlias = Callable[[Sequence[Write]], list[Answer]]
"""Applies writes, which are durable when it returns."""


class LocalAttempts(Protocol):
    def statuses(self, jobs: Sequence[Job]) -> list[AttemptStatus | None]:
        """
        Withdraw the attempts of *jobs* that have not started; return each status (None: unknown). Call `resolved` next.
        """

    def is_waiting(self, job: Job) -> bool: ...

    def resolved(self, statuses: Sequence[AttemptStatus], answers: Sequence[Answer] | Exception | None) -> None:
        """
        Take the result of the writes: their answers, or their error, or None if they were not sent.
        """


class UndecidedBatch:
    __slots__ = ("answers", "done", "indexes", "writes")

    def __init__(self, writes: Sequence[Write], answers: list[Answer], indexes: list[int], done: Done) -> None:
        self.writes, self.answers, self.indexes, self.done = writes, answers, indexes, done

    @classmethod
    def of(cls, writes: Sequence[Write], answers: list[Answer], done: Done) -> UndecidedBatch | None:
        indexes = [index for index, answer in enumerate(answers) if is_undecided(writes[index], answer)]
        return cls(writes, answers, indexes, done) if indexes else None

    def job(self, index: int) -> Job:
        job = self.answers[index].job
        assert job is not None
        return job

    def finish(self, answers: list[Answer] | Exception) -> None:
        if isinstance(answers, Exception):
            self.done(answers)
            return
        for index, answer in zip(self.indexes, answers, strict=True):
            self.answers[index] = answer
        self.done(self.answers)


class WithdrawalArbiter:
    """
    Decides from this process's memory, on the writer's thread, whether claimed attempts can still be withdrawn.

    If any attempt in a batch is unknown in this process, the owners decide: the whole batch sends withdrawal requests.
    """

    def __init__(self, knowing: Callable[[], LocalAttempts | None], requests: WithdrawalRequests) -> None:
        self._knowing = knowing
        self._requests = requests

    def decide(self, parts: Sequence[UndecidedBatch], commit: Commit) -> None:
        knowing = self._knowing()
        jobs = [part.job(index) for part in parts for index in part.indexes]
        statuses: list[AttemptStatus | None] = [None] * len(jobs) if knowing is None else knowing.statuses(jobs)
        by_part: list[tuple[UndecidedBatch, list[AttemptStatus | None]]] = []
        for part in parts:
            own, statuses = statuses[: len(part.indexes)], statuses[len(part.indexes) :]
            if None in own:  # the other withdrawals of the batch also wait, and are requested again
                if knowing is not None:
                    knowing.resolved([each for each in own if each is not None], None)
                self._requests.add(part)
            else:
                by_part.append((part, own))
        for part, own in by_part:
            self._write_over(part, [each for each in own if each is not None], knowing, commit)

    def _write_over(
        self, part: UndecidedBatch, statuses: list[AttemptStatus], knowing: LocalAttempts | None, commit: Commit
    ) -> None:
        writes = [with_status(part.writes[index], status) for index, status in zip(part.indexes, statuses, strict=True)]
        try:
            answers = commit(writes)
        except Exception as error:  # noqa: BLE001  any error belongs to the caller, and the thread continues
            if knowing is not None:
                knowing.resolved(statuses, error)
            part.finish(error)
            return
        if knowing is not None:
            knowing.resolved(statuses, answers)
        again = UndecidedBatch.of(writes, answers, part.finish)
        if again is None:
            part.finish(answers)
        else:
            self._requests.add(again)


def has_late(answers: Sequence[Answer]) -> bool:
    late = Outcome.TOO_LATE  # a local: an enum look-up is slow
    return bool([1 for answer in answers if answer.outcome is late])
