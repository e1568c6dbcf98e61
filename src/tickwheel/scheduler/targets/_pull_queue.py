"""
The queues of a pull target: what is ready, who waits, what is leased.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tickwheel.scheduler.targets._job_lease import JobLease
from tickwheel.scheduler.targets.contract import End, Firing

__all__ = ["CallLater", "Held", "Queue", "Served", "Worker"]


class Timer(Protocol):
    """
    A timer, as `call_later` returns it.
    """

    def cancel(self) -> bool: ...


CallLater: TypeAlias = Callable[..., Timer]


@dataclass(slots=True, eq=False)
class Held:
    """
    One firing that was handed over: ready, started for a worker, and then leased.
    """

    queue: str
    firing: Firing
    end: End
    announce: Callable[[], object] | None = None
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Worker:
    """
    One worker that waits.
    """

    limit: int
    seconds: float
    found: Future[list[JobLease]]
    timer: Timer | None = None


Served: TypeAlias = list[tuple[Worker, list[JobLease], list[Callable[[], object]]]]
"""The pulls that get a lease, and what reports it to observers."""


class Queue:
    """
    One queue: its ready attempts, its waiting workers, and the number of its leases.
    """

    __slots__ = ("leased", "ready", "workers")

    def __init__(self) -> None:
        self.ready: deque[Held] = deque()
        self.workers: deque[Worker] = deque()
        self.leased = 0

    @property
    def is_empty(self) -> bool:
        return not (self.ready or self.workers or self.leased)
