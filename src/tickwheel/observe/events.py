"""
The events that hooks receive: a frozen record for each event of a job or of the ownership of shards.

Times are milliseconds since the epoch on the store's clock. A hook is called on the thread of the event, and must not
block; its errors are logged. Without a hook, no record is made.
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
    An event of one generation of a job.
    """

    key: str
    generation: int


@make_fast
@dataclass(frozen=True, slots=True)
class JobSet(JobEvent):
    """
    A job was set through this scheduler; *outcome* is created, replaced or kept.
    """

    due_at: int
    target: str
    handler: str
    outcome: str


@dataclass(frozen=True, slots=True)
class JobMoved(JobEvent):
    """
    A pending job was moved through this scheduler.
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
    A job was paused through this scheduler, with author and reason.
    """

    by: str
    note: str


@dataclass(frozen=True, slots=True)
class JobResumed(JobEvent):
    """
    A paused job was resumed through this scheduler.
    """

    due_at: int


@dataclass(frozen=True, slots=True)
class ScopePaused:
    """
    The jobs of a handler, a queue or a target, or all jobs, were paused through this scheduler, with author and reason.
    """

    scope: str
    by: str
    note: str


@dataclass(frozen=True, slots=True)
class ScopeResumed:
    """
    The jobs of a paused scope were resumed through this scheduler.
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
    An event of one attempt.
    """

    attempt: int
    target: str
    handler: str


@make_fast
@dataclass(frozen=True, slots=True)
class JobFired(FiringEvent):
    """
    A job was passed to its target.

    Attributes:
        lateness_ms: Time from *due_at* to *fired_at*, more exact than the difference of the two.
    """

    due_at: int
    fired_at: int
    lateness_ms: float


@make_fast
@dataclass(frozen=True, slots=True)
class JobSucceeded(FiringEvent):
    """
    The target succeeded. *ran_ms* is the duration, *next_at* the next run of a recurring job.
    """

    ran_ms: float
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobFailed(FiringEvent):
    """
    The attempt failed and will be retried at *retry_at*.
    """

    error: str
    retry_at: int


@dataclass(frozen=True, slots=True)
class JobSnoozed(FiringEvent):
    """
    The handler asked to be called again at *until*. This attempt does not count.

    A target also snoozes a job whose receiver is unreachable or full. *reason* comes from the handler or the target.
    """

    until: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobDied(FiringEvent):
    """
    No attempt is left. The job is now a dead letter or, if it is recurring, continues with its next run at *next_at*.
    """

    error: str
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobExpired(FiringEvent):
    """
    A run was skipped, because it expired or was missed. *next_at* is the next run of a recurring job.
    """

    due_at: int
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class JobStopped(FiringEvent):
    """
    An attempt ended without success, after its job was cancelled while it ran. It is not retried.
    """

    ran_ms: float


@dataclass(frozen=True, slots=True)
class SettleRefused(FiringEvent):
    """
    The result of a firing was not written, because the job was set again, or this scheduler no longer owns it.
    """

    outcome: str


@dataclass(frozen=True, slots=True)
class OwnershipGained:
    """
    This scheduler now owns *shard*. *rescued* is the number of the shard's jobs that the former owner had left running.
    """

    shard: int
    epoch: int
    rescued: int


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """
    This scheduler no longer owns *shard*.

    *is_handed_over* is True if this scheduler passed the shard, under a valid lease, to a node that joined. It is False
    if the lease had ended.
    """

    shard: int
    epoch: int
    is_handed_over: bool = False


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """
    The store failed during the action *doing*, which will be retried.
    """

    doing: str
    error: str


@dataclass(frozen=True, slots=True)
class CircuitOpened:
    """
    A receiver has failed *failures* times in a row, so its jobs are postponed for *open_s* seconds.
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

    Its other jobs wait in the store. *staged* is the number of its jobs in memory. *reason* is a `WaitReason`.
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

EventHook: TypeAlias = Callable[[Event], object]
"""A function that is called with each event."""
