"""
The parts that are common to both simulated stores: a database that leases shards, and a file with one owner.

Each store keeps its rows in a real store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from simulation._machine import SimulatedMachine
from simulation._threads import Event
from simulation.history import Committed, History
from tickwheel.jobs.model import Answer, Begin, Claim, Declare, HistoryRecord, Job, Outcome, Pause, Write
from tickwheel.stores.contract import Abilities, Cursor, Lease, Skill

__all__ = ["HINT_LOST", "Connection", "World", "record"]

HINT_LOST: Final = 0.2


@dataclass(eq=False, slots=True)
class Connection:
    """
    A process's connection with the simulated store.
    """

    machine: SimulatedMachine
    heard: Event
    owner: str = ""
    store: Any = None
    is_open: bool = True


class World(Protocol):
    """
    The data, the owners of the shards, and the connections that are notified of changes. Every call is atomic.
    """

    abilities: Abilities
    shards: int

    def shard_of(self, key: str) -> int: ...

    def now_ms(self) -> int:
        pass

    def connect(self, machine: SimulatedMachine, heard: Event) -> Connection:
        """
        Connect a process.

        The event *heard* is set when another process has written.
        """

    def disconnect(self, connection: Connection) -> None:
        """
        Close the connection cleanly.
        """

    def crash(self, connection: Connection) -> None:
        """
        Close the connection, as the kernel does for a killed process.
        """

    def apply(self, connection: Connection, writes: Sequence[Write]) -> list[Answer]: ...

    def read(self, connection: Connection, name: str, *arguments: Any) -> Any: ...

    def changes(self, connection: Connection, cursor: Cursor) -> tuple[list[Job], int]:
        """
        Return other processes' writes after *cursor*, and the new scan position.
        """

    def acquire(self, connection: Connection, owner: str) -> list[Lease]:
        pass

    def renew(self, connection: Connection, owner: str) -> list[Lease]:
        pass

    def release(self, connection: Connection, owner: str) -> None:
        pass

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
    ) -> list[Job]: ...

    def set_scope(self, connection: Connection, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        """
        Pause a scope, or resume it if *pause* is None. Return True if it was paused before.
        """

    def fail_over(self) -> None:
        pass

    def lose_all(self) -> None:
        """
        Lose all rows.
        """

    def request_withdrawal(self, connection: Connection, jobs: Sequence[Job]) -> set[int]:
        """
        Ask the owners of *jobs* whether the attempts have started.
        """

    def withdrawal_requests(self, connection: Connection, shards: Sequence[int]) -> list[Job]: ...

    def report_started(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """
        Answer that the attempts of *jobs* have started.
        """

    def attempts(self, connection: Connection, jobs: Sequence[Job]) -> dict[int, bool]: ...

    def waiting(self) -> tuple[int, int]:
        """
        Return the number of running jobs, and the number of jobs that are overdue by more than a second.
        """

    def close(self) -> None: ...


def record(history: History, server: SimulatedMachine, machine: str, writes: Sequence[Write], answers: Any) -> None:
    """
    Record the writes that took effect, except declarations and writes that were superseded by later ones.

    A claim is recorded as one `Begin` for each job.
    """
    at, store_ms = server.run.now_ns, server.wall_ns() // 1_000_000
    for write, answer in zip(writes, answers, strict=True):
        if isinstance(write, Claim):
            for index in getattr(answer, "indexes", ()):
                begin = Begin(answers[index].job, write.epoch)
                history.add(Committed(at, machine, store_ms, begin, Answer(answer.outcome)))
        elif not isinstance(write, Declare) and answer.outcome is not Outcome.SUPERSEDED:
            history.add(Committed(at, machine, store_ms, write, answer))
