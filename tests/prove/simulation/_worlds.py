"""
The worlds that machines share, and the one of them that is a database which leases shards.

The data lies in real stores. `Cluster` puts leases by the database's clock over stores in memory, one a shard, as the
PostgreSQL store has them; the other world is a file that one process owns (`_one_file.py`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from zlib import crc32

from simulation._machine import SimulatedMachine
from simulation._threads import Event
from simulation.history import Committed, Freed, Granted, History, Taken
from tickwheel.scheduler.model import Answer, Job, JobQuery, Page, State, Write
from tickwheel.scheduler.stores import MemoryStore
from tickwheel.scheduler.stores._contract import Abilities, Changes, Lease
from tickwheel.scheduler.stores._rules import key_of

__all__ = ["HINT_LOST", "Cluster", "Connection", "World", "record"]

HINT_LOST: Final = 0.2
_LAG: Final = 5
"""By how much the sequences of a standby stand behind."""
_LEAP: Final = 1 << 20


@dataclass(eq=False, slots=True)
class Connection:
    """
    What one process has of the world.
    """

    machine: SimulatedMachine
    heard: Event
    owner: str = ""
    store: Any = None
    is_open: bool = True


class World(Protocol):
    """
    The data, who owns which shard, and who wants to hear of changes. Every call is atomic.
    """

    abilities: Abilities
    shards: int

    def shard_of(self, key: str) -> int:
        """
        Return the shard of *key*.
        """

    def now_ms(self) -> int:
        """
        Return the store's clock.
        """

    def connect(self, machine: SimulatedMachine, heard: Event) -> Connection:
        """
        Let a process in; *heard* is set when others wrote.
        """

    def disconnect(self, connection: Connection) -> None:
        """
        Let it go, in order.
        """

    def crash(self, connection: Connection) -> None:
        """
        Let it go as the kernel does when it was killed.
        """

    def apply(self, connection: Connection, writes: Sequence[Write]) -> list[Answer]:
        """
        Write.
        """

    def read(self, connection: Connection, name: str, *arguments: Any) -> Any:
        """
        Read.
        """

    def acquire(self, connection: Connection, owner: str) -> list[Lease]:
        """
        Take shards.
        """

    def renew(self, connection: Connection, owner: str) -> list[Lease]:
        """
        Keep shards.
        """

    def release(self, connection: Connection, owner: str) -> None:
        """
        Give shards back.
        """

    def fail_over(self) -> None:
        """
        Lose the server, and go on with its standby.
        """

    def ask(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        """
        Ask whether attempts have started.
        """

    def asked(self, connection: Connection, shards: Sequence[int]) -> list[Job]:
        """
        Read what is asked.
        """

    def tell_started(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """
        Answer that attempts have started.
        """

    def started(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        """
        Read what was answered.
        """

    def waiting(self) -> tuple[int, int]:
        """
        Return how many jobs run, and how many are overdue by a second.
        """

    def close(self) -> None:
        """
        Let go of everything.
        """


def record(history: History, server: SimulatedMachine, machine: str, writes: Sequence[Write], answers: Any) -> None:
    """
    Write down what took effect.
    """
    at, store_ms = server.run.now_ns, server.wall_ns() // 1_000_000
    for write, answer in zip(writes, answers, strict=True):
        history.add(Committed(at, machine, store_ms, write, answer))


@dataclass(eq=False, slots=True)
class _Shard:
    store: MemoryStore
    owner: str = ""
    holder: Connection | None = None
    until: int = 0
    epoch: int = 0
    notes: list[str] = field(default_factory=list)


class Cluster:
    """
    A database with leases, which knows its owners by their names alone.
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
        self._shards = [_Shard(MemoryStore(server)) for _ in range(shards)]
        self._seen: dict[str, int] = {}
        self._epoch = 0
        for number, shard in enumerate(self._shards):
            shard.store.open()
            shard.store._generation = number << 40

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
        Nothing of it is seen here: its leases run out, and what it sent may still arrive.
        """

    def apply(self, connection: Connection, writes: Sequence[Write]) -> list[Answer]:
        parts: dict[int, list[int]] = {}
        for index, write in enumerate(writes):
            parts.setdefault(self.shard_of(key_of(write)), []).append(index)
        answers: dict[int, Answer] = {}
        for number, indexes in parts.items():
            found = self._shards[number].store.apply([writes[index] for index in indexes])
            answers.update(zip(indexes, found, strict=True))
            self._note(connection, self._shards[number], found)
        result = [answers[index] for index in range(len(writes))]
        record(self._history, self._server, connection.machine.name, writes, result)
        return result

    def _note(self, connection: Connection, shard: _Shard, answers: Sequence[Answer]) -> None:
        holder = shard.holder
        keys = [answer.job.key for answer in answers if answer.job and answer.job.state is State.PENDING]
        if holder is None or holder is connection or not keys:
            return
        shard.notes += keys
        if self._dice.random() >= HINT_LOST:
            holder.heard.set()

    def read(self, connection: Connection, name: str, *arguments: Any) -> Any:
        if name == "get":
            return self._shards[self.shard_of(arguments[0])].store.get(*arguments)
        if name == "changes":
            return self._changes(connection, *arguments)
        if name == "count":
            counts = [shard.store.count() for shard in self._shards]
            return {state: sum(count[state] for count in counts) for state in counts[0]}
        if name == "page":
            return self._page(*arguments)
        return self._read_more(name, *arguments)

    def _read_more(self, name: str, *arguments: Any) -> Any:
        if name == "upcoming":
            found = [job for shard in self._shards for job in shard.store.upcoming(*arguments)]
            return sorted(found, key=lambda job: (job.due_at, job.generation))[: arguments[2]]
        if name == "overdue":
            until, limit = arguments[1:]
            due = {number: self._shards[number].store.due(0, until, None, limit) for number in arguments[0]}
            return {number: jobs for number, jobs in due.items() if jobs}
        if name == "count_due":
            return [
                sum(each) for each in zip(*(shard.store.count_due(*arguments) for shard in self._shards), strict=True)
            ]
        return getattr(self._shards[arguments[0]].store, name)(*_in_one(name, arguments))

    def _changes(self, connection: Connection, number: int, epoch: int, until: int, since: int | None) -> Changes:
        """
        Take the notes away, as PostgreSQL does: an answer that is lost on its way takes them along.
        """
        shard = self._shards[number]
        if since is None or not self._may_take(connection, shard, epoch):
            return Changes([], 0)
        keys, shard.notes = shard.notes, []
        if keys:
            self._history.add(Taken(self._server.run.now_ns, number, epoch, connection.machine.name))
        jobs = [shard.store.get(key) for key in keys]
        return Changes([job for job in jobs if job and job.state is State.PENDING and job.due_at < until], 0)

    @staticmethod
    def _may_take(connection: Connection, shard: _Shard, epoch: int) -> bool:
        return (shard.owner, shard.epoch) == (connection.owner, epoch)

    def _page(self, query: JobQuery) -> Page:
        jobs: list[Job] = []
        for shard in self._shards:
            jobs += shard.store.page(query).jobs
        jobs.sort(key=lambda job: job.key)
        is_last = len(jobs) <= query.limit
        return Page(tuple(jobs[: query.limit]), None if is_last else jobs[query.limit - 1].key)

    def acquire(self, connection: Connection, owner: str) -> list[Lease]:
        now = self.now_ms()
        leases = self.renew(connection, owner)
        missing = self._fair_share(owner, now) - len(leases)
        for number, shard in enumerate(self._shards):
            if missing > 0 and (not shard.owner or shard.until < now):
                missing -= 1
                leases.append(self._take(number, shard, connection, owner, now))
        return sorted(leases, key=lambda lease: lease.shard)

    def _take(self, number: int, shard: _Shard, connection: Connection, owner: str, now: int) -> Lease:
        self._free(shard)
        (lease,) = shard.store.acquire(owner)
        shard.owner, shard.holder = owner, connection
        shard.until, shard.epoch = now + self._lease_ms, self._next_epoch()
        shard.store._epoch = shard.epoch
        at, name = self._server.run.now_ns, connection.machine.name
        self._history.add(Granted(at, number, shard.epoch, name, lease.rescued))
        return Lease(number, shard.epoch, shard.until, lease.rescued, now)

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    def _free(self, shard: _Shard) -> None:
        if shard.owner:
            shard.store.release(shard.owner)
            shard.owner, shard.holder = "", None
            self._history.add(Freed(self._server.run.now_ns, self._shards.index(shard)))

    def renew(self, connection: Connection, owner: str) -> list[Lease]:
        now = self.now_ms()
        connection.owner = owner
        self._seen[owner] = now + self._lease_ms
        held = [
            (number, shard) for number, shard in enumerate(self._shards) if shard.owner == owner and shard.until >= now
        ]
        held.sort(key=lambda each: not each[1].store.count()["running"])
        share = self._fair_share(owner, now)
        for _, shard in held[share:]:
            self._free(shard)
        for _, shard in held[:share]:
            shard.holder, shard.until = connection, now + self._lease_ms
        return [Lease(number, shard.epoch, shard.until, 0, now) for number, shard in held[:share]]

    def release(self, connection: Connection, owner: str) -> None:
        self._seen.pop(owner, None)
        for shard in self._shards:
            if shard.owner == owner:
                self._free(shard)

    def fail_over(self) -> None:
        """
        Let a standby take over that has all the rows, and sequences that lag behind what was given out.
        """
        self._epoch = max(0, self._epoch - _LAG)
        for shard in self._shards:
            shard.store._generation -= _LAG
        if self._notices_failover():
            self._epoch += _LEAP
            for shard in self._shards:
                shard.store._generation += _LEAP
                self._free(shard)

    @staticmethod
    def _notices_failover() -> bool:
        return True

    def _fair_share(self, owner: str, now: int) -> int:
        nodes = sorted(name for name, until in self._seen.items() if until >= now)
        least, more = divmod(self.shards, len(nodes))
        return least + (nodes.index(owner) < more)

    def ask(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        orphans: set[int] = set()
        for job in jobs:
            shard = self._shards[self.shard_of(job.key)]
            if not shard.owner or shard.until < self.now_ms():
                orphans.add(job.generation)
                continue
            shard.store.ask([job])
            if shard.holder is not None and self._dice.random() >= HINT_LOST:
                shard.holder.heard.set()
        return orphans

    def asked(self, connection: Connection, shards: Sequence[int]) -> list[Job]:
        return [job for shard in shards for job in self._shards[shard].store.asked([0])]

    def tell_started(self, connection: Connection, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._shards[self.shard_of(job.key)].store.tell_started([job])

    def started(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        return {job.generation for job in jobs if self._shards[self.shard_of(job.key)].store.started([job])}

    def waiting(self) -> tuple[int, int]:
        counts = [shard.store.count() for shard in self._shards]
        overdue = [shard.store.due(0, self.now_ms() - 1000, None, 10) for shard in self._shards]
        return sum(count["running"] for count in counts), sum(map(len, overdue))

    def close(self) -> None:
        """
        There is nothing to let go of.
        """


def _in_one(name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return (0, *arguments[1:]) if name == "due" else arguments
