"""
The rows of a database that leases shards: a store in memory that also records the shard of each job.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import Any

from simulation._machine import SimulatedMachine
from tickwheel.jobs.model import (
    Answer,
    Begin,
    Job,
    Manifest,
    Redate,
    SetAside,
    Settle,
    State,
    Write,
    key_of,
    scope_over,
)
from tickwheel.jobs.rules import NOT_OWNER, rescued
from tickwheel.stores import MemoryStore
from tickwheel.stores._decided import Batch
from tickwheel.stores._onces import Onces
from tickwheel.stores._records import cut_off
from tickwheel.stores.contract import Skill

__all__ = ["Table"]


class Table(MemoryStore):
    """
    The jobs of a database, and the shard in which each job is at present.
    """

    def __init__(self, server: SimulatedMachine, home_of: Callable[[str], int]) -> None:
        super().__init__(server)
        self._home_of = home_of
        self._away: dict[str, int] = {}
        self.epochs: dict[int, int] = {}
        """Epochs of the shards that have an owner."""
        self.open()

    @property
    def generation(self) -> int:
        """
        The generation that was given out last.
        """
        return self._generation

    def leap(self, by: int) -> None:
        """
        Add *by*, which may be negative, to the last generation.
        """
        self._generation += by

    def request_from(self, owner: str, jobs: Sequence[Job]) -> None:
        """
        Ask *owner* to withdraw *jobs*.
        """
        self._owner = owner
        self.request_withdrawal(jobs)

    def open_requests(self, valid: Container[Any]) -> list[Job]:
        """
        Return the withdrawal requests of attempts that were not reported as started.

        Delete all requests whose names are not in *valid*.
        """
        self._asked = {name: job for name, job in self._asked.items() if name in valid}
        return [job for name, job in self._asked.items() if name not in self._started]

    def place_of(self, key: str) -> int:
        """
        Return the shard that holds the job of *key*.
        """
        return self._away.get(key, self._home_of(key))

    def in_shard(self, shard: int, state: State) -> list[Job]:
        return [job for job in self._jobs.values() if job.state is state and self.place_of(job.key) == shard]

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        jobs = map(self._jobs.__getitem__, self._keys_from(after))
        due = takewhile(lambda job: job.due_at < until, jobs)
        return list(islice((job for job in due if self.place_of(job.key) == shard), limit))

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        return super().due(0, until, (since, -1), limit)

    def rescue(self, shard: int) -> int:
        """
        Make the running jobs of *shard* pending, and return their number.
        """
        running = self.in_shard(shard, State.RUNNING)
        for job in running:
            self.add_records([cut_off(job, self.now_ms())])
            self._replace(job, rescued(job))
        return len(running)

    def leave(self, shard: int, tail: int) -> int:
        """
        Move the running jobs of *shard* into the draining shard *tail*, and return their number.
        """
        running = self.in_shard(shard, State.RUNNING)
        self._away.update((job.key, tail) for job in running)
        return len(running)

    def take_up_into(
        self, shard: int, skills: Sequence[Skill], limit: int, unreadable: Sequence[str], unfit: Sequence[int]
    ) -> list[Job]:
        """
        Claim into *shard* up to *limit* unroutable jobs that a node with *skills* can run, and return these jobs.
        """
        wanted = set(skills)
        found = [
            job
            for job in self._aside.values()
            if not wanted.isdisjoint(((job.target, job.handler), (job.target, None)))
            and scope_over(job.target, job.handler, self._scopes) is None
            and not any(part in (job.recurrence or "") for part in unreadable)
            and job.generation not in unfit
        ]
        taken = [replace(job, lacks_handler=False) for job in found[:limit]]
        for old, job in zip(found, taken, strict=False):
            self._replace(old, job)
            self._away[job.key] = shard
        return taken

    def is_fenced(self, write: Begin | SetAside | Settle | Redate) -> bool:
        """
        Return True if *write* is rejected, because it does not come from the owner of the job's shard.
        """
        return self.epochs.get(self.place_of(write.job.key)) != write.epoch

    def moved_home(self, key: str) -> None:
        """
        Record that the job of *key* has returned to its own shard.
        """
        self._away.pop(key, None)

    def _batch(self, now: int, onces: Onces | None) -> Batch:
        return FencedBatch(self, now, self._jobs, self._generation, manifests=self._manifests, onces=onces)


class FencedBatch(Batch):
    """
    The writes of one transaction. A write is rejected if it does not come from the owner of the job's shard.
    """

    def __init__(
        self,
        table: Table,
        now: int,
        jobs: Mapping[str, Job],
        generation: int,
        *,
        manifests: Mapping[str, Manifest],
        onces: Onces | None,
    ) -> None:
        super().__init__(now, jobs, generation, None, manifests=manifests, onces=onces)
        self._table = table

    def answer(self, write: Write) -> Answer:
        if isinstance(write, Begin | SetAside | Settle | Redate):
            if self._table.is_fenced(write):
                return NOT_OWNER
            self._epoch = write.epoch
        key = key_of(write)
        before = self._job(key)
        answer = super().answer(write)
        after = self._job(key)
        if after != before and (after is None or after.state is not State.RUNNING):
            self._table.moved_home(key)
        return answer
