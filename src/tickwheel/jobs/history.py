"""
The records that a store keeps of a job's past.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tickwheel.jobs.record import record

__all__ = ["CUT_OFF", "Actor", "HistoryRecord"]

CUT_OFF: Final = "cut_off"
"""The outcome of an attempt whose process ended, or lost its shard, before it did."""


@record
class Actor:
    """
    The author of a write, for the history.

    Attributes:
        name: A process, or a token of a service.
        is_always: Whether all that they do is kept, and not only what they do to recurring jobs.
    """

    name: str
    is_always: bool = False


class HistoryRecord(NamedTuple):
    """
    One thing that happened to a job: an attempt that ended, or an act of a caller.

    Attributes:
        number: Grows with every record of a store; 0 until it is stored.
        at: When it ended, in ms since the epoch.
        key: The job's.
        generation: The job's, at that time.
        attempt: Which one, from 1; 0 of an act.
        outcome: "succeeded", "failed" (it is tried again), "died" (no attempt is left), "snoozed", "expired", or
            "cut_off": its process ended before it did, or lost the right to it; or "stopped": somebody asked for that
            while it ran. Of an act "created", "replaced", "changed", "restarted", "moved", "cancelled", "replayed",
            "paused", "resumed" or "stopping".
        by: The node that ran it, by the name of that life of it; of what was cut off by a stop, "". Of an act the
            process that asked for it, or the token.
        target: The kind of place it went to.
        handler: Which one of that kind.
        due_at: When it was due.
        begun_at: When it began, with the fraction; None if it never did.
        took_ms: How long it took; None if it never began, or nobody knows.
        error: What went wrong, or None.
        traceback: Where: the last frames of the exception and of what it came from, cut to 4,000 characters, or None.
        trace: The W3C traceparent of its span, or of the setting, or None.
        note: What its handler noted last, such as a short result, cut to 200 characters; None if that was nothing.
        nominal_at: The instant that the rule of a recurring job named for the run, before any jitter; None of an act,
            of a job that fires once, and of what was cut off.
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
