"""
The referee: sees to it that `cancelled`, `moved`, `replaced` and `paused` mean that what was there does not start.

The store answers TOO_LATE where an attempt is counted, because it cannot see whether that has started: no commit comes
between an instant and its firing. The job's owner knows, and its answer comes with the write when it is done again:

    who owns the job               how it answers
    this process                   from its memory, at once: start and withdrawal exclude each other there
    another                        by a withdrawal request: the caller waits, nobody else does
    nobody any more                nothing starts: the attempt was cut off

Nothing here happens to a write that meets no counted attempt, which are all but those within some milliseconds of an
instant, or while the job waits for a worker or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from tickwheel.host.withdrawal_requests import WithdrawalRequests, with_status
from tickwheel.jobs.model import Answer, AttemptStatus, Contested, Job, Outcome, Standing, Write

__all__ = ["Done", "Knowing", "Open", "Referee", "has_late"]

Done: TypeAlias = Callable[[list[Answer] | Exception], object]
"""Gets the answers to one entry's writes, or the error that all of it met; it may neither block nor raise."""

Commit: TypeAlias = Callable[[Sequence[Write]], list[Answer]]


class Knowing(Protocol):
    """
    A source that knows how far the counted attempts of its own jobs have come.
    """

    def statuses(self, jobs: Sequence[Job]) -> list[AttemptStatus | None]:
        """
        Return the attempt status of each of *jobs*, which run in the store; None where it is not known here.

        What is said to be withdrawn does not start any more, and `resolved` is to be called with it.
        """

    def is_waiting(self, job: Job) -> bool:
        """
        Return whether the attempt that is counted for *job* is known here and has not started.
        """

    def resolved(self, statuses: Sequence[AttemptStatus], answers: Sequence[Answer] | None) -> None:
        """
        Take notice of what came of the writes that withdrew *statuses*; None if that is unknown.
        """


class Open:
    """
    Writes of one caller that were done together, some of them undecided yet.
    """

    __slots__ = ("answers", "done", "indexes", "writes")

    def __init__(self, writes: Sequence[Write], answers: list[Answer], indexes: list[int], done: Done) -> None:
        self.writes, self.answers, self.indexes, self.done = writes, answers, indexes, done

    @classmethod
    def of(cls, writes: Sequence[Write], answers: list[Answer], done: Done) -> Open | None:
        """
        Return what is undecided among *answers*, or None.
        """
        indexes = [index for index, answer in enumerate(answers) if is_undecided(writes[index], answer)]
        return cls(writes, answers, indexes, done) if indexes else None

    def job(self, index: int) -> Job:
        """
        Return the job that the undecided write of that *index* met.
        """
        job = self.answers[index].job
        assert job is not None
        return job

    def finish(self, answers: list[Answer] | Exception) -> None:
        """
        Answer the caller, with *answers* to the writes that were undecided.
        """
        if isinstance(answers, Exception):
            self.done(answers)
            return
        for index, answer in zip(self.indexes, answers, strict=True):
            self.answers[index] = answer
        self.done(self.answers)


class Referee:
    """
    Decides on the writer's thread what can be decided from memory, and leaves the rest to requests.

    Args:
        knowing: What fires here, or None.
        requests: Sends those that others have to answer.
    """

    def __init__(self, knowing: Callable[[], Knowing | None], requests: WithdrawalRequests) -> None:
        self._knowing = knowing
        self._requests = requests

    def decide(self, parts: Sequence[Open], commit: Commit) -> None:
        """
        Answer the callers of *parts*, now or later; *commit* does writes, durable on return.
        """
        knowing = self._knowing()
        jobs = [part.job(index) for part in parts for index in part.indexes]
        statuses: list[AttemptStatus | None] = [None] * len(jobs) if knowing is None else knowing.statuses(jobs)
        by_part: list[tuple[Open, list[AttemptStatus | None]]] = []
        for part in parts:
            own, statuses = statuses[: len(part.indexes)], statuses[len(part.indexes) :]
            if None in own:  # its other withdrawals wait with it, and are asked for again
                if knowing is not None:
                    knowing.resolved([each for each in own if each is not None], None)
                self._requests.add(part)
            else:
                by_part.append((part, own))
        for part, own in by_part:
            self._write_over(part, [each for each in own if each is not None], knowing, commit)

    def _write_over(self, part: Open, statuses: list[AttemptStatus], knowing: Knowing | None, commit: Commit) -> None:
        """
        Do the undecided writes of *part* again, with the *statuses* of the attempts that they met.
        """
        writes = [with_status(part.writes[index], status) for index, status in zip(part.indexes, statuses, strict=True)]
        try:
            answers = commit(writes)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the caller, and the thread lives on
            if knowing is not None:
                knowing.resolved(statuses, None)
            part.finish(error)
            return
        if knowing is not None:
            knowing.resolved(statuses, answers)
        again = Open.of(writes, answers, part.finish)
        if again is None:
            part.finish(answers)
        else:
            self._requests.add(again)


def has_late(answers: Sequence[Answer]) -> bool:
    """
    Return whether any of *answers* says TOO_LATE.
    """
    late = Outcome.TOO_LATE  # an enum is slow to look into
    return bool([1 for answer in answers if answer.outcome is late])


def is_undecided(write: Write, answer: Answer) -> bool:
    """
    Return whether *answer* says TOO_LATE for want of an attempt status.
    """
    job = answer.job
    if answer.outcome is not Outcome.TOO_LATE or job is None or not isinstance(write, Contested):
        return False
    over = write.over
    if over is None or over.standing is not Standing.STARTED:
        return True
    # What has started may be an earlier attempt: of the one that is counted nothing is known then.
    return (over.generation, over.due_at, over.attempt) != (job.generation, job.due_at, job.attempt)
