from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tickwheel.jobs.model import Job
from tickwheel.targets.contract import End, Firing

__all__ = ["CallLater", "JobLease", "LeasedFiring", "PullQueue", "Served", "Worker"]


@dataclass(frozen=True, slots=True)
class JobLease:
    """
    One firing that a worker has leased.

    Attributes:
        job: The job, with its encoded payload.
        attempt: The number of the attempt, from 1.
        until: The end of the lease, in ms since the epoch on the store's clock.
    """

    job: Job
    attempt: int
    until: int

    @property
    def fire_id(self) -> str:
        """
        The name of this firing, with which a worker acknowledges it and recognises repeats.
        """
        return f"{self.job.key}/{self.job.generation}/{self.attempt}"

    @property
    def payload(self) -> Any:
        return json.loads(self.job.payload)

    @property
    def is_last_attempt(self) -> bool:
        """
        True if a failure now is final.
        """
        return self.attempt >= self.job.retry.attempts


class Timer(Protocol):
    def cancel(self) -> bool: ...


CallLater: TypeAlias = Callable[..., Timer]


@dataclass(slots=True, eq=False)
class LeasedFiring:
    """
    A firing that was dispatched to a queue. It is ready at first. When a worker gets it, it is started and leased.
    """

    queue: str
    firing: Firing
    end: End
    announce: Callable[[], object] | None = None
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Worker:
    limit: int
    seconds: float
    found: Future[list[JobLease]]
    timer: Timer | None = None


Served: TypeAlias = list[tuple[Worker, list[JobLease], list[Callable[[], object]]]]
"""For each worker: its leases, and for each lease a function that reports the start of the attempt."""


class PullQueue:
    __slots__ = ("leased", "ready", "workers")

    def __init__(self) -> None:
        self.ready: deque[LeasedFiring] = deque()
        self.workers: deque[Worker] = deque()
        self.leased = 0

    @property
    def is_empty(self) -> bool:
        return not (self.ready or self.workers or self.leased)
