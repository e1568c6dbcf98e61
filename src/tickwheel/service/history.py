"""
The documents of a job's past.
"""

from __future__ import annotations

from msgspec import Struct

from tickwheel.scheduler import HistoryRecord
from tickwheel.service.documents import Moment, instant

__all__ = ["HistoryDocument", "record_document"]


class RecordDocument(Struct, frozen=True):
    """
    One attempt that ended: succeeded, failed (and is tried again), died, snoozed, expired, stopped, or cut_off.

    `cut_off`: its process ended before it did. Or an act, whose attempt is 0: created, replaced, moved, cancelled,
    stopping (it was running, and asked to stop), replayed, paused, resumed. `at` is when it was, `by` the node that ran
    it, or the process or token that asked for it. `lateness_ms` is null if it never began, `took_ms` also if nobody
    knows. `note` is what its handler noted last, such as a short result.
    """

    number: int
    at: Moment
    key: str
    generation: int
    attempt: int
    outcome: str
    by: str
    target: str
    handler: str
    due_at: Moment
    lateness_ms: float | None
    took_ms: float | None
    error: str | None
    traceback: str | None
    trace: str | None
    note: str | None


class HistoryDocument(Struct, frozen=True):
    """
    The past of one key, the newest first; pass the last `number` as `before` for what was earlier.
    """

    records: list[RecordDocument]


def record_document(record: HistoryRecord) -> RecordDocument:
    """
    Return *record* as it goes out.
    """
    return RecordDocument(
        number=record.number,
        at=instant(record.at),
        key=record.key,
        generation=record.generation,
        attempt=record.attempt,
        outcome=record.outcome,
        by=record.by,
        target=record.target,
        handler=record.handler,
        due_at=instant(record.due_at),
        lateness_ms=None if record.begun_at is None else round(record.begun_at - record.due_at, 3),
        took_ms=None if record.took_ms is None else round(record.took_ms, 3),
        error=record.error,
        traceback=record.traceback,
        trace=record.trace,
        note=record.note,
    )
