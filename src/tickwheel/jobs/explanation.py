from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tickwheel.jobs.model import Job

__all__ = ["EVERY_LANE", "Explanation", "LaneState", "WaitReason", "explained", "unreachable"]

EVERY_LANE: Final = "*"
"""The value of `lane` for a reason that applies to the jobs of all lanes."""


class WaitReason(StrEnum):
    """
    The reasons why a job has not run yet.
    """

    NOT_DUE = "not_due"
    """The job is not due yet."""
    RETRY = "retry"
    """The last attempt failed or was snoozed, and the next attempt is not due yet."""
    PAUSED = "paused"
    """The job or a scope that includes it is paused."""
    NO_HANDLER = "no_handler"
    """Each process that fires jobs lacks the job's handler, target or library, or rejects the job's rule or payload."""
    RATE = "rate"
    """The handler's `rate` is used up."""
    CONCURRENCY = "concurrency"
    """The handler's running attempts use up its `concurrency`."""
    NO_WORKER = "no_worker"
    """No worker asks for the jobs of the job's pull queue."""
    BUSY = "busy"
    """Long or hanging attempts occupy all workers, or all workers that the job's lane may use."""
    PREVIOUS_RUN = "previous_run"
    """Another attempt of the job's key is running."""
    NO_ROOM = "no_room"
    """The process that fires the job has no room in memory for more jobs."""
    STARTING = "starting"
    """Nothing delays the job. It is about to start."""
    NO_OWNER = "no_owner"
    """No process fires the jobs of the job's shard."""
    OTHER_NODE = "other_node"
    """Another process fires the job, and reports no delay of the job's lane."""
    LEASE_NOT_TRUSTED = "lease_not_trusted"
    """The firing process did not renew its lease in time."""
    CLOCK_SET = "clock_set"
    """The store's clock was changed, so the due time of the job is being rewritten."""
    STORE_UNREACHABLE = "store_unreachable"
    """The store does not answer."""
    RUNNING = "running"
    """The job runs."""
    DEAD = "dead"
    """The job is a dead letter: no attempt is left."""


_REMEDIES: Final = {
    WaitReason.NOT_DUE: "wait, or start it at once: run_now(key)",
    WaitReason.RETRY: "mend the cause that its error names, and start it at once: run_now(key)",
    WaitReason.PAUSED: "resume it: resume(key), or resume_scope(scope) for a scope",
    WaitReason.NO_HANDLER: "start a process that has it, or correct the job: change(key, handler=...)",
    WaitReason.RATE: "wait, or raise rate= of the handler, or cancel jobs of its lane",
    WaitReason.CONCURRENCY: "look at the attempts that run, give the handler a timeout=, or raise concurrency=",
    WaitReason.NO_WORKER: "start workers that lease from the queue",
    WaitReason.BUSY: "look at the attempts that run, give their handlers a timeout=, or raise SchedulerOptions.workers",
    WaitReason.PREVIOUS_RUN: "wait for its end, or stop it: cancel(key, running=True)",
    WaitReason.NO_ROOM: "look at the lanes in stats(), or raise SchedulerOptions.staged_max",
    WaitReason.STARTING: "ask again if it has not started in a second",
    WaitReason.NO_OWNER: "start a scheduler on this store: start(), or 'tickwheel serve'",
    WaitReason.OTHER_NODE: "ask that process: explain(key) there, or its /v1/stats",
    WaitReason.LEASE_NOT_TRUSTED: "find out why the store answers late: load, network, or a process that was suspended",
    WaitReason.CLOCK_SET: "wait a second",
    WaitReason.STORE_UNREACHABLE: "see that the store runs and can be reached; jobs go on once it answers",
    WaitReason.RUNNING: "wait for its end, or stop it: cancel(key, running=True)",
    WaitReason.DEAD: "mend the cause that its error names, and try it again: replay(key)",
}


@dataclass(frozen=True, slots=True)
class LaneState:
    """
    A lane (the jobs of one handler, pull queue or receiver) in the process that fires its jobs.

    Attributes:
        lane: The name, such as "handler:mail" or "webhook:https://example.com". A target's name alone, such as "pull",
            means all lanes of this target that had no short attempt lately. They share one limit in memory.
        reason: The reason why its due jobs wait, or None if no job waits.
        staged: Number of jobs in memory that have not started, due or not.
        waiting: Number of due jobs in memory that are delayed by a limit or by a lack of free workers.
        oldest_due_at: Due time of the earliest waiting job, in ms since the epoch; None if no job waits.
        is_full: True if the lane has used up its share of memory, so that its other jobs wait in the store.
        concurrency: Maximum number of simultaneous attempts, or None if the handler sets no limit.
        rate: Maximum number of attempts that start in a second, or None.
    """

    lane: str
    reason: WaitReason | None = None
    staged: int = 0
    waiting: int = 0
    running: int = 0
    oldest_due_at: int | None = None
    is_full: bool = False
    concurrency: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    The reason why a job has not run yet.

    Attributes:
        reason: The reason; if there are several, the one that the scheduler checks first.
        lane: The name of the job's lane; "" if the store does not answer.
        text: The reason as a sentence, with figures.
        remedy: Advice on what to do about it.
        until: Time at which the reason ends without your help, in ms since the epoch; None if unknown.
        owner: The process that fires the job; None if there is no such process or it is unknown.
        state: The figures of the lane; None if the firing process does not report them.
    """

    key: str
    reason: WaitReason
    lane: str
    text: str
    remedy: str
    until: int | None = None
    owner: str | None = None
    state: LaneState | None = None


def explained(
    job: Job,
    lane: str,
    reason: WaitReason,
    text: str,
    *,
    until: int | None = None,
    owner: str | None = None,
    state: LaneState | None = None,
) -> Explanation:
    return Explanation(job.key, reason, lane, text, _REMEDIES[reason], until, owner, state)


def unreachable(key: str, error: Exception) -> Explanation:
    reason = WaitReason.STORE_UNREACHABLE
    return Explanation(key, reason, "", f"the store does not answer: {error}", _REMEDIES[reason])
