"""
The records of a job's past in a store.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwheel.jobs.record import record

__all__ = ["ACTS_MAX", "CUT_OFF", "Actor", "HistoryRecord"]

ACTS_MAX: Final = 10_000
"""
Maximum number of records in the log of acts: acts and events, without parts of bulk acts.

The limits of other records do not apply to them, so no number of attempts pushes an act out of the log.
"""

CUT_OFF: Final = "cut_off"
"""The outcome of an attempt whose process ended, or lost its shard, before the attempt did."""


@record
class Actor:
    """
    The author of a write, for the history.

    Attributes:
        name: A process, or a token of a service.
        is_always: True if all its acts are recorded, not only those on recurring jobs.
        bulk: The name of the bulk act that the write is part of, or None.
    """

    name: str
    is_always: bool = False
    bulk: str | None = None


class HistoryRecord(NamedTuple):
    """
    An event of a job (an attempt that ended, or an act of a caller), an event of a node, or a bulk act.

    Attributes:
        number: Increases with every record of a store; 0 until it is stored.
        at: Time of the end, in ms since the epoch.
        key: The job's key; of other records a paused scope, the name of a bulk act, or a node.
        generation: The job's generation at that time.
        attempt: Number of the attempt, from 1; 0 for an act.
        outcome: "succeeded", "failed" (it will be retried), "died" (no attempt is left), "snoozed", "expired",
            "cut_off" (its process ended before it did, or lost the right to it), or "stopped" (on request, while it
            ran). For an act "created", "replaced", "changed", "restarted", "moved", "cancelled", "replayed", "paused",
            "resumed" or "stopping". For a bulk act "bulk", for a node "deployed" (it has another version than the node
            that started before it), "took_over" or "node_died".
        by: The node that ran it, by the name of that life; "" if a stop cut it off. For an act the
            requesting process, or the token.
        target: The target kind.
        handler: The handler of that kind.
        due_at: Due time.
        begun_at: Start time, with its fraction; None if it never started.
        took_ms: Duration; None if it never started, or is unknown.
        error: The error, or None.
        traceback: The last frames of the exception and its causes, truncated to 4,000 characters, or None.
        trace: The W3C traceparent of its span, or of the set, or None.
        note: The last note of its handler, such as a short result, truncated to 200 characters, or None.
        nominal_at: The nominal instant of the run of a recurring job, before any jitter; None for an act,
            a one-time job, and an attempt that was cut off.
        was_due_at: The due time before an act that changed it, else None.
        bulk: The bulk act that an act is part of, by its name; None for any other record.
    """

    number: int
    at: int
    key: str
    generation: int
    attempt: int
    outcome: str
    by: str
    target: str
    handler: str
    due_at: int
    begun_at: float | None = None
    took_ms: float | None = None
    error: str | None = None
    traceback: str | None = None
    trace: str | None = None
    note: str | None = None
    nominal_at: int | None = None
    was_due_at: int | None = None
    bulk: str | None = None

    @property
    def is_logged(self) -> bool:
        """
        True if it is in the log of acts.
        """
        return not self.attempt and self.bulk is None
