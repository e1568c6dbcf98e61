"""
What travels: the bodies that come in, and the documents that go out.

Names are the library's own (`delay`, `at`, `every`). Seconds are seconds; instants go out as RFC 3339 in UTC, and come
in so or as seconds since the epoch.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from tickwheel.scheduler._model import Answer, Job, RetryPolicy
from tickwheel.service.firings import Firing

__all__ = [
    "AnswerDocument",
    "FiringDocument",
    "FiringsDocument",
    "ForecastDocument",
    "JobDocument",
    "MoveBody",
    "PageDocument",
    "RetryBody",
    "SetBody",
    "StripDocument",
    "answer_document",
    "firing_document",
    "instant",
    "job_document",
]

CENTURY_S: Final = 36_525 * 86_400
"""The longest delay that a durable job takes."""
YEAR_S: Final = 366 * 86_400
"""The longest wait before another attempt."""

Delay = Annotated[float, Meta(le=CENTURY_S, description="Seconds from now; below zero counts as now.", examples=[3])]
Instant = Annotated[
    Annotated[datetime, Meta(tz=True)] | float,
    Meta(description="RFC 3339 with an offset, or seconds since the epoch.", examples=["2030-01-01T09:00:00Z"]),
]
Span = Annotated[float, Meta(gt=0, le=CENTURY_S, description="Seconds.")]
Wait = Annotated[float, Meta(ge=0, le=YEAR_S, description="Seconds.")]
Fraction = Annotated[float, Meta(ge=0, le=1)]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Body(Struct, forbid_unknown_fields=True, frozen=True):
    """
    What comes in: an unknown name is refused, since it is a misspelt one.
    """

    def fields(self) -> dict[str, Any]:
        """
        Return the fields under the names that the scheduler's methods have for them.
        """
        return asdict(self)


class RetryBody(Body, frozen=True):
    """
    When a failed job is tried again.
    """

    attempts: Annotated[int, Meta(ge=1, le=1000, description="How often at most, the first included.")] = 5
    kind: Literal["exponential", "linear", "list"] = "exponential"
    base_s: Wait = 1.0
    max_s: Wait = 3600.0
    jitter: Fraction = 0.1
    waits_s: Annotated[tuple[Wait, ...], Meta(max_length=1000, description="A list's waits; the last repeats.")] = ()

    def policy(self) -> RetryPolicy:
        """
        Return it in the scheduler's words.
        """
        waits_ms = tuple(round(wait * 1000) for wait in self.waits_s)
        return RetryPolicy(
            self.attempts, self.kind, round(self.base_s * 1000), round(self.max_s * 1000), self.jitter, waits_ms
        )


class SetBody(Body, frozen=True):
    """
    What to set: exactly one of `delay`, `at`, `every` and `cron`, and what to do then.
    """

    delay: Delay = None  # type: ignore[assignment]  # null is refused, and what is absent is None
    at: Instant = None  # type: ignore[assignment]
    every: Span = None  # type: ignore[assignment]
    cron: str = None  # type: ignore[assignment]
    tz: str = "UTC"
    misfire: Literal["once", "all", "skip"] = "once"
    jitter: Annotated[float, Meta(ge=0, le=CENTURY_S)] = 0.0
    payload: Any = None
    target: str = "handler"
    handler: str | None = None
    retry: RetryBody | None = None
    expires: Span | None = None
    mode: Literal["replace", "keep", "earliest"] = "replace"
    max_wait: Span | None = None
    trace: str | None = None

    def fields(self) -> dict[str, Any]:
        """
        Return the fields, the retry policy in the scheduler's words.
        """
        fields = super().fields()
        if self.retry is not None:
            fields["retry"] = self.retry.policy()
        return fields


class MoveBody(Body, frozen=True):
    """
    Where to move a job: exactly one of `delay` and `at`.
    """

    delay: Delay = None  # type: ignore[assignment]  # null is refused, and what is absent is None
    at: Instant = None  # type: ignore[assignment]


class RetryDocument(Struct, frozen=True):
    """
    A retry policy as it is stored.
    """

    attempts: int
    kind: str
    base_s: float
    max_s: float
    jitter: float
    waits_s: tuple[float, ...]


class JobDocument(Struct, frozen=True):
    """
    A job as it is stored.
    """

    key: str
    generation: int
    state: Literal["pending", "running", "dead"]
    due_at: datetime
    target: str
    handler: str
    payload: Raw
    attempt: int
    retry: RetryDocument
    expires_at: datetime | None
    recurrence: Raw | None
    error: str | None
    trace: str | None
    first_set_at: datetime


class AnswerDocument(Struct, frozen=True):
    """
    What came of a write, and the job as it is afterwards; of a cancelled one, as it was.
    """

    outcome: str
    job: JobDocument | None


class PageDocument(Struct, frozen=True):
    """
    One page of jobs in the order of their keys; pass `cursor` on for the next one, null on the last.
    """

    jobs: list[JobDocument]
    cursor: str | None


class FiringDocument(Struct, frozen=True):
    """
    One firing, and what became of it: running, succeeded, failed, snoozed, died or superseded.
    """

    fire_id: str
    key: str
    generation: int
    attempt: int
    target: str
    handler: str
    due_at: datetime
    fired_at: datetime
    lateness_ms: float
    outcome: str
    error: str | None


class FiringsDocument(Struct, frozen=True):
    """
    Firings of this process, oldest change first.
    """

    firings: list[FiringDocument]


class StripDocument(Struct, frozen=True):
    """
    How many pending jobs fall due in each step from `since` on.
    """

    name: str
    since: datetime
    step_s: int
    counts: list[int]


class ForecastDocument(Struct, frozen=True):
    """
    What falls due in the next minute, hour and day, and when the next job does.
    """

    next_due_at: datetime | None
    strips: list[StripDocument]


def instant(ms: int) -> datetime:
    """
    Return *ms* since the epoch as an aware datetime.
    """
    return _EPOCH + timedelta(milliseconds=ms)


def job_document(job: Job) -> JobDocument:
    """
    Return *job* as it goes out.
    """
    return JobDocument(
        key=job.key,
        generation=job.generation,
        state=job.state.value,
        due_at=instant(job.due_at),
        target=job.target,
        handler=job.handler,
        payload=Raw(job.payload),
        attempt=job.attempt,
        retry=_retry_document(job.retry),
        expires_at=None if job.expires_at is None else instant(job.expires_at),
        recurrence=None if job.recurrence is None else Raw(job.recurrence.encode()),
        error=job.error,
        trace=job.trace,
        first_set_at=instant(job.first_set_at),
    )


@lru_cache(256)
def _retry_document(retry: RetryPolicy) -> RetryDocument:
    waits_s = tuple(wait / 1000 for wait in retry.waits_ms)
    return RetryDocument(retry.attempts, retry.kind, retry.base_ms / 1000, retry.max_ms / 1000, retry.jitter, waits_s)


def answer_document(answer: Answer) -> AnswerDocument:
    """
    Return *answer* as it goes out.
    """
    return AnswerDocument(answer.outcome.value, None if answer.job is None else job_document(answer.job))


def firing_document(firing: Firing) -> FiringDocument:
    """
    Return *firing* as it goes out.
    """
    fired = firing.fired
    return FiringDocument(
        fire_id=f"{fired.key}/{fired.generation}/{fired.attempt}",
        key=fired.key,
        generation=fired.generation,
        attempt=fired.attempt,
        target=fired.target,
        handler=fired.handler,
        due_at=instant(fired.due_at),
        fired_at=instant(fired.fired_at),
        lateness_ms=round(fired.lateness_ms, 3),
        outcome=firing.outcome,
        error=firing.error,
    )
