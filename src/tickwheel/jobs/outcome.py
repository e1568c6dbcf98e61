"""
The outcomes of writes.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Outcome"]


class Outcome(StrEnum):
    """
    The outcome of a write; every write has exactly one.
    """

    CREATED = "created"
    REPLACED = "replaced"
    KEPT = "kept"
    UNCHANGED = "unchanged"
    """The series has this rule and payload already: nothing was written."""
    CHANGED = "changed"
    """The series goes on by the new rule, or with the new payload; a run under way ends by the old ones."""
    RESTARTED = "restarted"
    """A new series has taken the place of the old one."""
    DEAD = "dead"
    """The series with this rule has ended as a dead letter, which only a replay or a new series revives."""
    FINISHED = "finished"
    """No run of the rule is left, and there is no series to end: nothing was written."""
    MOVED = "moved"
    CANCELLED = "cancelled"
    BEGUN = "begun"
    SETTLED = "settled"
    REPLAYED = "replayed"
    PAUSED = "paused"
    """To a begin it says that the job does not start, since it is paused."""
    RESUMED = "resumed"
    TOO_LATE = "too_late"
    """
    The job has started: it can be neither moved nor cancelled any more.

    From a store it means less: an attempt is counted, and the write comes without its `AttemptStatus`.
    """
    STOPPING = "stopping"
    """The job is running, is asked to stop, and is not tried again: the answer to a cancel of what runs."""
    NOT_FOUND = "not_found"
    WRONG_GENERATION = "wrong_generation"
    """The job has another generation than the caller asked for, or than the firing that wants to settle it."""
    OTHER_MANIFEST = "other_manifest"
    """The key belongs to another manifest: nothing was written."""
    SUPERSEDED = "superseded"
    """A newer revision of the manifest was declared, or another declaration of it came first: nothing was written."""
    NOT_OWNER = "not_owner"
    """The writer's epoch is not the shard's any more: a zombie's settle, refused."""
