"""
The simulated SQLite file.

Every process on the machine has its own store object, and one of the processes owns the file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulation._machine import SimulatedMachine
from simulation._threads import Event
from simulation._worlds import HINT_LOST, Connection, record
from simulation.history import Freed, Granted, History, Scoped, TakenUp
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Pause, State, Write
from tickwheel.stores.contract import Abilities, Cursor, Lease, Skill
from tickwheel.stores.sqlite import SqliteStore

__all__ = ["OneFile"]


class OneFile:
    """
    A SQLite file on one machine.

    If a process dies, its lock is released at once.
    """

    abilities = Abilities(has_notify=True, claims_sets=True)
    shards = 1

    def __init__(self, server: SimulatedMachine, history: History, dice: random.Random, path: Path) -> None:
        self._server = server
        self._history = history
        self._dice = dice
        self._path = path
        self._connections: list[Connection] = []
        self._epoch = 0

    def shard_of(self, key: str) -> int:
        return 0

    def now_ms(self) -> int:
        return self._server.wall_ns() // 1_000_000

    def connect(self, machine: SimulatedMachine, heard: Event) -> Connection:
        store = SqliteStore(self._path, clock=self._server)
        store.open()
        connection = Connection(machine, heard, store=store)
        self._connections.append(connection)
        return connection

    def disconnect(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            connection.store.close()
            if connection.owner:
                self._history.add(Freed(self._server.run.now_ns, 0))

    def crash(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            connection.store._connections.close()
            connection.store._lock.give_back()
            if connection.store._checkpointer is not None:
                connection.store._checkpointer.close()
            connection.store._listener.close()

    def apply(self, connection: Connection, writes: Sequence[Write]) -> list[Answer]:
        answers: list[Answer] = connection.store.apply(writes)
        record(self._history, self._server, connection.machine.name, writes, answers)
        if any(answer.job and answer.job.state is State.PENDING for answer in answers):
            for other in self._connections:
                if other is not connection and other.owner and self._dice.random() >= HINT_LOST:
                    other.heard.set()
        return answers

    def read(self, connection: Connection, name: str, *arguments: Any) -> Any:
        return getattr(connection.store, name)(*arguments)

    def changes(self, connection: Connection, cursor: Cursor) -> tuple[list[Job], int]:
        (sight,) = connection.store.look([cursor], 0, 0, with_changes=True)
        return sight.changed, sight.mark

    def acquire(self, connection: Connection, owner: str) -> list[Lease]:
        leases: list[Lease] = connection.store.acquire(owner)
        connection.owner = owner
        (lease,) = leases
        if lease.epoch != self._epoch:
            self._epoch = lease.epoch
            at, name = self._server.run.now_ns, connection.machine.name
            self._history.add(Granted(at, 0, lease.epoch, name, lease.rescued))
        return leases

    def renew(self, connection: Connection, owner: str) -> list[Lease]:
        leases: list[Lease] = connection.store.renew(owner)
        return leases

    def release(self, connection: Connection, owner: str) -> None:
        connection.store.release(owner)
        if connection.owner:
            connection.owner = ""
            self._history.add(Freed(self._server.run.now_ns, 0))

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
        jobs: list[Job] = connection.store.take_up(shard, epoch, skills, limit, unreadable, unfit=unfit)
        if jobs:
            keys = tuple(job.key for job in jobs)
            self._history.add(TakenUp(self._server.run.now_ns, shard, epoch, connection.machine.name, keys))
        return jobs

    def set_scope(self, connection: Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        was_paused: bool = connection.store.set_scope(scope, pause, record)
        scopes = tuple(each.scope for each in connection.store.scopes())
        self._history.add(Scoped(self._server.run.now_ns, scopes))
        return was_paused

    def fail_over(self) -> None:
        """
        Do nothing: a file has no standby.
        """

    def lose_all(self) -> None:
        """
        Do nothing: a file does not lose its data while its owner uses it.
        """

    def request_withdrawal(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        orphans: set[int] = connection.store.request_withdrawal(jobs)
        for other in self._connections:
            if other.owner and self._dice.random() >= HINT_LOST:
                other.heard.set()
        return orphans

    def withdrawal_requests(self, connection: Connection, shards: Sequence[int]) -> list[Job]:
        found: list[Job] = connection.store.withdrawal_requests(shards)
        return found

    def report_started(self, connection: Connection, jobs: Sequence[Job]) -> None:
        connection.store.report_started(jobs)

    def attempts(self, connection: Connection, jobs: Sequence[Job]) -> dict[int, bool]:
        found: dict[int, bool] = connection.store.attempts(jobs)
        return found

    def waiting(self) -> tuple[int, int]:
        store = SqliteStore(self._path, clock=self._server)
        store.open()
        try:
            return store.count()["running"], len(store.due(0, self.now_ms() - 1000, None, 10))
        finally:
            store.close()

    def close(self) -> None:
        for connection in list(self._connections):
            self.crash(connection)
