"""
The simulated database, which leases shards by its own clock, like the PostgreSQL store.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

from simulation._machine import SimulatedMachine
from simulation._table import Table
from simulation._threads import Event
from simulation._worlds import HINT_LOST, Connection, record
from simulation.history import Freed, Granted, History, Left, Scoped, Taken, TakenUp
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Pause, State, Write
from tickwheel.jobs.rules import holds
from tickwheel.stores.contract import Abilities, Cursor, Lease, Skill

__all__ = ["Cluster"]

_LAG: Final = 5
"""Number of generations and epochs by which a standby's sequences lag behind."""
_LEAP: Final = 1 << 20
_FIRST_TAIL: Final = 1_000
"""
Number of the first draining shard. Draining shards hold running jobs of shards that were handed over.
"""


@dataclass(eq=False, slots=True)
class _Shard:
    number: int
    owner: str = ""
    holder: Connection | None = None
    until: int = 0
    epoch: int = 0
    notes: list[str] = field(default_factory=list)


class Cluster:
    """
    A database with leases, which identifies owners only by their names.
    """

    abilities = Abilities(has_notify=True, has_many_owners=True)

    def __init__(
        self, server: SimulatedMachine, history: History, dice: random.Random, shards: int, lease_s: float
    ) -> None:
        self.shards = shards
        self._server = server
        self._history = history
        self._dice = dice
        self._lease_ms = int(lease_s * 1000)
        self._shards = {number: _Shard(number) for number in range(shards)}
        self._table = Table(server, self.shard_of)
        self._seen: dict[str, int] = {}
        self._asked_at: dict[tuple[int, int, int], int] = {}
        self._epoch = 0

    def shard_of(self, key: str) -> int:
        return crc32(key.encode()) % self.shards

    def now_ms(self) -> int:
        return self._server.wall_ns() // 1_000_000

    def connect(self, machine: SimulatedMachine, heard: Event) -> Connection:
        return Connection(machine, heard)

    def disconnect(self, connection: Connection) -> None:
        self.release(connection, connection.owner)
        connection.is_open = False

    def crash(self, connection: Connection) -> None:
        """
        Do nothing.

        The leases of the dead process expire. Writes that it has sent may still arrive.
        """

    def apply(self, connection: Connection, writes: Sequence[Write]) -> list[Answer]:
        answers = self._table.apply(writes)
        for answer in answers:
            if answer.job is not None and answer.job.state is State.PENDING:
                self._note(connection, answer.job)
        record(self._history, self._server, connection.machine.name, writes, answers)
        return answers

    def _note(self, connection: Connection, job: Job) -> None:
        if job.lacks_handler:  # any node may claim the job
            self._hint(connection, {id(shard.holder): shard.holder for shard in self._shards.values()}.values())
            return
        shard = self._shards[self._table.place_of(job.key)]
        if shard.holder is not None and shard.holder is not connection:
            shard.notes.append(job.key)
            self._hint(connection, [shard.holder])

    def _hint(self, connection: Connection, holders: Any) -> None:
        for holder in holders:
            if holder is not None and holder is not connection and self._dice.random() >= HINT_LOST:
                holder.heard.set()

    def read(self, connection: Connection, name: str, *arguments: Any) -> Any:
        if name == "overdue":
            until, limit = arguments[1:]
            due = {number: self._table.due(number, until, None, limit) for number in arguments[0]}
            return {number: jobs for number, jobs in due.items() if jobs}
        return getattr(self._table, name)(*arguments)

    def changes(self, connection: Connection, cursor: Cursor) -> tuple[list[Job], int]:
        """
        Hand over the notifications of a shard, and delete them, as PostgreSQL does.
        """
        number, epoch = cursor.shard, cursor.epoch
        shard = self._shards.get(number)
        if cursor.mark is None or shard is None or not self._may_take(connection, shard, epoch):
            return [], 0
        keys, shard.notes = shard.notes, []
        if keys:
            self._history.add(Taken(self._server.run.now_ns, number, epoch, connection.machine.name))
        jobs = [self._table.get(key) for key in keys]
        pending = [job for job in jobs if job and job.state is State.PENDING and job.pause is None]
        return [job for job in pending if job.due_at <= cursor.after[0]], 0

    @staticmethod
    def _may_take(connection: Connection, shard: _Shard, epoch: int) -> bool:
        return (shard.owner, shard.epoch) == (connection.owner, epoch)

    def take_up(
        self,
        connection: Connection,
        shard: int,
        epoch: int,
        skills: Sequence[Skill],
        limit: int,
        *,
        unreadable: Sequence[str],
        unfit: Sequence[int],
    ) -> list[Job]:
        into = self._shards.get(shard)
        if into is None or not self._may_take(connection, into, epoch):
            return []
        jobs = self._table.take_up_into(shard, skills, limit, unreadable, unfit)
        if jobs:
            keys = tuple(job.key for job in jobs)
            self._history.add(TakenUp(self._server.run.now_ns, shard, epoch, connection.machine.name, keys))
        return jobs

    def set_scope(self, connection: Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        was_paused = self._table.set_scope(scope, pause, record)
        self._history.add(Scoped(self._server.run.now_ns, tuple(each.scope for each in self._table.scopes())))
        return was_paused

    # ---- leases ----------------------------------------------------------------------------------------------------

    def acquire(self, connection: Connection, owner: str) -> list[Lease]:
        now = self.now_ms()
        leases = self.renew(connection, owner)
        missing = self._fair_share(owner, now) - sum(lease.shard < _FIRST_TAIL for lease in leases)
        for shard in sorted(self._shards.values(), key=lambda shard: shard.number):
            is_tail = shard.number >= _FIRST_TAIL
            if (missing > 0 or is_tail) and (not shard.owner or shard.until < now):
                missing -= not is_tail
                leases.append(self._take(shard, connection, owner, now))
        return sorted(leases, key=lambda lease: lease.shard)

    def _take(self, shard: _Shard, connection: Connection, owner: str, now: int) -> Lease:
        self._free(shard)
        rescued = self._table.rescue(shard.number)
        shard.owner, shard.holder, shard.notes = owner, connection, []
        shard.until, shard.epoch = now + self._lease_ms, self._next_epoch()
        self._table.epochs[shard.number] = shard.epoch
        at, name = self._server.run.now_ns, connection.machine.name
        self._history.add(Granted(at, shard.number, shard.epoch, name, rescued))
        return Lease(shard.number, shard.epoch, shard.until, rescued, now)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _free(self, shard: _Shard) -> None:
        if shard.owner:
            shard.owner, shard.holder = "", None
            del self._table.epochs[shard.number]
            self._history.add(Freed(self._server.run.now_ns, shard.number))

    def renew(self, connection: Connection, owner: str) -> list[Lease]:
        now = self.now_ms()
        connection.owner = owner
        self._seen[owner] = now + self._lease_ms
        self._cut_leases(now)
        for shard in self._held(owner, now)[self._fair_share(owner, now) :]:
            if shard.number < _FIRST_TAIL:
                self._leave_tail(shard)
                self._free(shard)
        for shard in self._held(owner, now):
            if shard.number >= _FIRST_TAIL and not self._has_jobs(shard.number):
                self._free(shard)
                del self._shards[shard.number]
            else:
                shard.holder, shard.until = connection, now + self._lease_ms
        return [Lease(shard.number, shard.epoch, shard.until, 0, now) for shard in self._held(owner, now)]

    def _cut_leases(self, now: int) -> None:
        """
        Shorten leases that were granted before the clock was set back.
        """
        latest = now + self._lease_ms
        self._seen = {name: min(until, latest) for name, until in self._seen.items()}
        for shard in self._shards.values():
            shard.until = min(shard.until, latest)

    def _held(self, owner: str, now: int) -> list[_Shard]:
        held = [shard for shard in self._shards.values() if shard.owner == owner and shard.until >= now]
        return sorted(held, key=lambda shard: shard.number)

    def _has_jobs(self, number: int) -> bool:
        return any(self._table.in_shard(number, state) for state in (State.PENDING, State.RUNNING))

    def _leave_tail(self, shard: _Shard) -> None:
        """
        When *shard* is handed over, leave its running jobs with their owner, under the same epoch.
        """
        number = _FIRST_TAIL + shard.epoch
        if self._table.leave(shard.number, number):
            self._shards[number] = _Shard(number, shard.owner, shard.holder, shard.until, shard.epoch)
            self._table.epochs[number] = shard.epoch
            self._history.add(Left(self._server.run.now_ns, shard.number, number))

    def release(self, connection: Connection, owner: str) -> None:
        self._seen.pop(owner, None)
        for shard in self._shards.values():
            if shard.owner == owner:
                self._free(shard)

    def fail_over(self) -> None:
        """
        Switch to a standby that has all rows.

        The standby's sequences lag behind the generations and epochs that writes have got.
        """
        self._epoch = max(0, self._epoch - _LAG)
        self._table.leap(-_LAG)
        if self._notices_failover():
            self._epoch += _LEAP
            self._table.leap(_LEAP)
            for shard in self._shards.values():
                self._free(shard)

    @staticmethod
    def _notices_failover() -> bool:
        return True

    def lose_all(self) -> None:
        """
        Empty the tables. No shard has an owner then, and generations and epochs continue at much higher numbers.
        """
        for shard in list(self._shards.values()):
            self._free(shard)
            shard.notes = []
            if shard.number >= _FIRST_TAIL:
                del self._shards[shard.number]
        before, self._table = self._table, Table(self._server, self.shard_of)
        self._seen.clear()
        if self._leaps_when_emptied():
            self._epoch += _LEAP
            self._table.leap(before.generation + _LEAP - self._table.generation)
        else:
            self._epoch = 0
        self._history.add(Scoped(self._server.run.now_ns, ()))

    @staticmethod
    def _leaps_when_emptied() -> bool:
        return True

    def _fair_share(self, owner: str, now: int) -> int:
        nodes = sorted(name for name, until in self._seen.items() if until >= now)
        least, more = divmod(self.shards, len(nodes))
        return least + (nodes.index(owner) < more)

    # ---- withdrawals -----------------------------------------------------------------------------------------------

    def request_withdrawal(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        orphans: set[int] = set()
        for job in jobs:
            shard = self._shards[self._table.place_of(job.key)]
            if not shard.owner or shard.until < self.now_ms():
                orphans.add(job.generation)
                continue
            self._table.request_from(shard.owner, [job])
            self._asked_at[job.generation, job.due_at, job.attempt] = self.now_ms()
            if shard.holder is not None and self._dice.random() >= HINT_LOST:
                shard.holder.heard.set()
        return orphans

    def withdrawal_requests(self, connection: Connection, shards: Sequence[int]) -> list[Job]:
        """
        Return the jobs of *shards* whose withdrawal was requested, if the request is still valid and unanswered.
        """
        table, now = self._table, self.now_ms()
        self._asked_at = {name: at for name, at in self._asked_at.items() if holds(name[2], now - at)}
        return [job for job in table.open_requests(self._asked_at) if table.place_of(job.key) in shards]

    def report_started(self, connection: Connection, jobs: Sequence[Job]) -> None:
        self._table.report_started(jobs)

    def attempts(self, connection: Connection, jobs: Sequence[Job]) -> dict[int, bool]:
        return self._table.attempts(jobs)

    def waiting(self) -> tuple[int, int]:
        """
        Return the number of running jobs, and the number of jobs that are overdue by more than a second.
        """
        return self._table.count()["running"], len(self._table.upcoming(0, self.now_ms() - 1000, 10))

    def close(self) -> None:
        """
        Do nothing: there is nothing to release.
        """
