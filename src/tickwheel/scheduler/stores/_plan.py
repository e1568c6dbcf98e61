"""
What a batch of writes asks for, sorted by how much it takes to do it.

Most of what a busy scheduler writes needs no look before the leap: the begin of a pending job, the end of a running
one. A store does them as one statement for many rows, which counts the rows it changed: if the count is right, every
guess was. If it is not, nothing is committed, and all is planned again with care: each job is read, and the rules say
what becomes of it. So are all other writes from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tickwheel.scheduler.model import (
    Adopt,
    Answer,
    Begin,
    Job,
    Redate,
    Settle,
    Settled,
    Write,
)
from tickwheel.scheduler.stores._rules import BEGUN, GONE, NOT_OWNER, decide, key_of

__all__ = ["Differences", "Plan", "WrongGuessError"]

_Careful: TypeAlias = tuple[int, str, Write]


class WrongGuessError(Exception):
    """
    A job was not as a begin or settle took it to be: roll back, and plan with care.
    """


@dataclass(slots=True)
class Differences:
    """
    What a batch makes of the jobs of its careful keys, for a store to write down.

    Attributes:
        new: Jobs of keys that had none.
        changed: Jobs as they were and as they are.
        gone: Jobs of keys that have none any more.
    """

    new: list[Job] = field(default_factory=list)
    changed: list[tuple[Job, Job]] = field(default_factory=list)
    gone: list[Job] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """
    One batch, sorted.

    Attributes:
        answers: One for each write; those of careful ones are still to come.
        begins: Jobs that are guessed to be pending; they get state running and one attempt more.
        ends: Jobs that are guessed to be running; they are deleted. After all begins.
        careful: The other writes: where their answer belongs, their key, and they themselves. After all ends.
        floor: What every new generation is to be larger than, whatever the store has given out.
    """

    answers: list[Answer]
    begins: list[Job] = field(default_factory=list)
    ends: list[Job] = field(default_factory=list)
    careful: list[_Careful] = field(default_factory=list)
    floor: int = 0

    @classmethod
    def of(
        cls, writes: Sequence[Write], epochs: Mapping[int, int], shard_of: Callable[[str], int], *, is_guessing: bool
    ) -> Plan:
        """
        Sort *writes*; those of a firing that come with another epoch than *epochs* has for the shard are refused.

        Raises:
            WrongGuessError: If *is_guessing*, and one key is in writes of two kinds, whose order may then count.
        """
        plan = cls([NOT_OWNER] * len(writes))
        answers, begins, ends, careful = plan.answers, plan.begins, plan.ends, plan.careful
        for index, write in enumerate(writes):
            if isinstance(write, (Begin, Settle, Redate)):
                job = write.job
                if epochs.get(shard_of(job.key)) != write.epoch:
                    continue
                if not is_guessing or isinstance(write, Redate):
                    careful.append((index, job.key, write))
                elif isinstance(write, Begin):
                    begins.append(job)
                    answers[index] = BEGUN
                elif write.how is Settled.DONE and write.due_at is None:
                    ends.append(job)
                    answers[index] = GONE
                else:
                    careful.append((index, job.key, write))
            else:
                careful.append((index, key_of(write), write))
                if isinstance(write, Adopt):
                    plan.floor = max(plan.floor, write.job.generation)
        plan._check_apart()
        return plan

    def keys(self) -> list[str]:
        """
        Return the keys of the careful writes, each once, sorted.
        """
        return sorted({key for _, key, _ in self.careful})

    def decide(self, before: Mapping[str, Job], now: int, next_generation: Callable[[], int]) -> Differences:
        """
        Answer the careful writes, in order, and return what comes of them.

        Args:
            before: The jobs that the keys have now.
            now: The store's clock, in ms.
            next_generation: Called for each new generation.
        """
        after: dict[str, Job | None] = dict(before)
        for index, key, write in self.careful:
            self.answers[index], after[key] = decide(write, after.get(key), now, next_generation)
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

    def _check_apart(self) -> None:
        met: set[str] = set()
        for keys in (
            [job.key for job in self.begins],
            [job.key for job in self.ends],
            [key for _, key, _ in self.careful],
        ):
            if keys and not met.isdisjoint(keys):
                raise WrongGuessError
            met.update(keys)
