from __future__ import annotations

from typing import Final, NamedTuple

from tickwheel.jobs.record import record

__all__ = ["ACTS_MAX", "CUT_OFF", "Actor", "HistoryRecord"]

ACTS_MAX: Final = 10_000
"""
Maximum number of records in the log of acts: acts of callers, events of nodes, and bulk changes.
"""

CUT_OFF: Final = "cut_off"
"""The outcome of an attempt whose process ended, or lost the shard, before the attempt ended."""


@record
class Actor:
    """
    The author of a write, for the history.

    *name* is the name of a process, or of a service's token. If *is_always* is True, all acts of the author are
    recorded; if False, only acts on recurring jobs. *bulk* is the name of the bulk change that the write belongs to, or
    None.
    """

    name: str
    is_always: bool = False
    bulk: str | None = None


class HistoryRecord(NamedTuple):
    """
    An event of a job (an ended attempt, or a caller's act), an event of a node, or a bulk change (a call of `bulk`).

    Attributes:
        number: Grows with every record of a store; 0 until the record is stored.
        at: Time of the event, or of the attempt's end, in ms since the epoch.
        key: The job's key. A record that is not about a job has the name of a paused scope, bulk change or node here.
        generation: The job's generation at that time.
        attempt: Number of the attempt, from 1; 0 for an act.
        outcome: Of an attempt: "succeeded", "failed" (it will be retried), "died" (no attempt is left), "snoozed",
            "expired", "cut_off" (its process ended first, or lost its shard), or "stopped" (on request, while it ran).
            Of an act: "created", "replaced", "changed", "restarted", "moved", "cancelled", "replayed", "paused",
            "resumed" or "stopping". Of a bulk change: "bulk". Of a node: "deployed" (its version differs from the
            version of the node that started before it), "took_over" or "node_died".
        by: Of an attempt: the name of the node that ran it; "" if the node released the shard first. A node has a new
            name after each start. Of an act: the name of the requesting process or token.
        begun_at: Start time in ms since the epoch, with a fraction; None if the attempt never started.
        took_ms: Duration; None if the attempt never started, or the duration is unknown.
        traceback: The last frames of the exception and its causes, truncated to 4,000 characters, or None.
        trace: The W3C traceparent of the attempt's span, or of the span that set the job, or None.
        note: The handler's last note, such as a short result, truncated to 200 characters, or None.
        nominal_at: The nominal instant of a recurring job's run, before any jitter; None for an act, a one-time job,
            and an attempt that was cut off.
        was_due_at: For an act that changed the due time, the due time before the act; None for any other record.
        bulk: The name of the bulk change that an act is part of; None for any other record.
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
        True if the record is in the log of acts.
        """
        return not self.attempt and self.bulk is None
