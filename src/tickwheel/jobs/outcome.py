from __future__ import annotations

from enum import StrEnum

__all__ = ["Outcome"]


class Outcome(StrEnum):
    """
    The outcome of a write. Every write has exactly one.
    """

    CREATED = "created"
    REPLACED = "replaced"
    KEPT = "kept"
    UNCHANGED = "unchanged"
    """The series already has the requested rule and payload. Nothing was written."""
    CHANGED = "changed"
    """The series has a new rule or payload. A running attempt completes under the old rule and payload."""
    RESTARTED = "restarted"
    """A new series has replaced the old one."""
    DEAD = "dead"
    """The series with the requested rule is a dead letter. Only a replay or a new series revives the job."""
    FINISHED = "finished"
    """The rule has no further run, and there is no series to change. Nothing was written."""
    MOVED = "moved"
    CANCELLED = "cancelled"
    BEGUN = "begun"
    SETTLED = "settled"
    REPLAYED = "replayed"
    PAUSED = "paused"
    """The job is paused. If this is the answer to a `Begin`, the job does not start."""
    RESUMED = "resumed"
    TOO_LATE = "too_late"
    """
    The job has started, so it can be neither moved nor cancelled.

    A store also gives this answer if an attempt is counted and the write does not have its `AttemptStatus`.
    """
    STOPPING = "stopping"
    """The answer to a cancel of a running job: the job was asked to stop, and will not be retried."""
    NOT_FOUND = "not_found"
    WRONG_GENERATION = "wrong_generation"
    """The job's generation is not the generation that the caller expected, or that the finished firing had."""
    OTHER_MANIFEST = "other_manifest"
    """The key belongs to another manifest. Nothing was written."""
    SUPERSEDED = "superseded"
    """A newer revision of the manifest was declared, or another declaration came first. Nothing was written."""
    KEY_REUSED = "key_reused"
    """The idempotency key was used for another request. Nothing was written."""
    NOT_OWNER = "not_owner"
    """The writer's epoch is outdated, because the shard has a new owner. Nothing was written."""
