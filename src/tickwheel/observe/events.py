"""
The events that hooks receive: a frozen record for each thing that happens to a job or to the right to fire.

Instants are milliseconds since the epoch by the store's clock. A hook is called on the thread where it happened and
must not block; what it raises is logged and dropped. With no hook subscribed, no record is made. What
comes with every set and firing is made without its `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tickwheel._core import make_fast

__all__ = [
    "CircuitClosed",
    "CircuitOpened",
    "Event",
    "EventHook",
    "JobCancelled",
    "JobDied",
    "JobExpired",
    "JobFailed",
    "JobFired",
    "JobMoved",
    "JobPaused",
    "JobReplayed",
    "JobResumed",
    "JobSet",
    "JobSnoozed",
    "JobStopped",
    "JobSucceeded",
    "LaneCleared",
    "LaneFilled",
    "OwnershipGained",
    "OwnershipLost",
    "ScopePaused",
    "ScopeResumed",
    "SettleRefused",
    "StoreFailed",
]


@dataclass(frozen=True, slots=True)
class JobEvent:
    """
    Something that happened to one generation of a job.
    """

    key: str
    generation: int


@make_fast
@dataclass(frozen=True, slots=True)
class JobSet(JobEvent):
    """
    A job was set through this scheduler; *outcome* says created, replaced or kept.
    """

    due_at: int
    target: str
    handler: str
    outcome: str


@dataclass(frozen=True, slots=True)
class JobMoved(JobEvent):
    """
    A pending job got another instant through this scheduler.
    """

    due_at: int


@dataclass(frozen=True, slots=True)
class JobCancelled(JobEvent):
    """
    A job was cancelled through this scheduler.
    """


@dataclass(frozen=True, slots=True)
class JobPaused(JobEvent):
    """
    A job was paused through this scheduler, by whom and why.
    """

    by: str
    note: str


@dataclass(frozen=True, slots=True)
class JobResumed(JobEvent):
    """
    A paused job was made due again through this scheduler.
    """

    due_at: int


@dataclass(frozen=True, slots=True)
class ScopePaused:
    """
    The jobs of a handler, a queue, a target, or all were paused through this scheduler, by whom and why.
    """

    scope: str
    by: str
    note: str


@dataclass(frozen=True, slots=True)
class ScopeResumed:
    """
    The jobs of a paused scope may start again, through this scheduler.
    """

    scope: str
    by: str


@dataclass(frozen=True, slots=True)
class JobReplayed(JobEvent):
    """
    A dead job was made pending again through this scheduler.
    """

    due_at: int


@dataclass(frozen=True, slots=True)
class FiringEvent(JobEvent):
    """
    Something that happened to one attempt.
    """

    attempt: int
    target: str
    handler: str


@make_fast
@dataclass(frozen=True, slots=True)
class JobFired(FiringEvent):
    """
    A job was handed over to its target.

    Attributes:
        due_at: When it was to fire.
        fired_at: When it did.
        lateness_ms: The difference, measured more finely than either.
    """

    due_at: int
    fired_at: int
    lateness_ms: float


@make_fast
@dataclass(frozen=True, slots=True)
class JobSucceeded(FiringEvent):
    """
    The target did its work; *ran_ms* is how long that took, *next_at* when a recurring job runs again.
    """

    ran_ms: float
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobFailed(FiringEvent):
    """
    The attempt failed and there is another one at *retry_at*.
    """

    error: str
    retry_at: int


@dataclass(frozen=True, slots=True)
class JobSnoozed(FiringEvent):
    """
    The handler asked to be called again at *until*; this does not count as an attempt.

    A target says so of a receiver that cannot be reached or is full, and *reason* is what it said, or "".
    """

    until: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobDied(FiringEvent):
    """
    There is no further attempt: the job is a dead letter, or, where it recurs, goes on at *next_at* without this run.
    """

    error: str
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobExpired(FiringEvent):
    """
    A run was left out, because it expired or was missed; *next_at* is when a recurring job runs again.
    """

    due_at: int
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobStopped(FiringEvent):
    """
    An attempt has ended, without success, after its job was cancelled while it ran; it is not tried again.
    """

    ran_ms: float


@dataclass(frozen=True, slots=True)
class SettleRefused(FiringEvent):
    """
    The end of a firing was not written: the job was set again meanwhile, or this scheduler is not its owner any more.
    """

    outcome: str


@dataclass(frozen=True, slots=True)
class OwnershipGained:
    """
    This scheduler may now fire the jobs of *shard*; *rescued* of them were left half done by the former owner.
    """

    shard: int
    epoch: int
    rescued: int


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """
    This scheduler may not fire the jobs of *shard* any more.

    With *is_handed_over* it has given the shard to a node that joined, while its right held; otherwise that had ended.
    """

    shard: int
    epoch: int
    is_handed_over: bool = False


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """
    The store did not answer while *doing* something that is going to be tried again.
    """

    doing: str
    error: str


@dataclass(frozen=True, slots=True)
class CircuitOpened:
    """
    A receiver has failed *failures* times in a row: for *open_s* seconds its jobs are put off and not sent.
    """

    place: str
    failures: int
    open_s: float


@dataclass(frozen=True, slots=True)
class CircuitClosed:
    """
    A receiver that had failed works again.
    """

    place: str


@dataclass(frozen=True, slots=True)
class LaneFilled:
    """
    A lane (the jobs of one handler, queue or receiver) has more jobs than its share of memory.

    The others wait in the store. *reason* is a `WaitReason`, such as "rate"; *staged* jobs of the lane are in memory.
    """

    lane: str
    reason: str
    staged: int


@dataclass(frozen=True, slots=True)
class LaneCleared:
    """
    A lane that had more jobs than its share of memory has room again.
    """

    lane: str


Event: TypeAlias = (
    JobSet
    | JobMoved
    | JobCancelled
    | JobPaused
    | JobResumed
    | ScopePaused
    | ScopeResumed
    | JobReplayed
    | JobFired
    | JobSucceeded
    | JobFailed
    | JobSnoozed
    | JobDied
    | JobExpired
    | JobStopped
    | SettleRefused
    | OwnershipGained
    | OwnershipLost
    | StoreFailed
    | CircuitOpened
    | CircuitClosed
    | LaneFilled
    | LaneCleared
)

"""Any of the events above."""
EventHook: TypeAlias = Callable[[Event], object]
"""A function that is called with each event."""
