"""
What comes in: the bodies of requests.

Names are the library's own (`delay`, `at`, `every`). Seconds are seconds; instants are RFC 3339 with an offset, or
seconds since the epoch.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from tickwheel.scheduler._model import RetryPolicy

__all__ = [
    "BatchBody",
    "CancelBody",
    "CancelItem",
    "Item",
    "MoveBody",
    "MoveItem",
    "RetryBody",
    "SetBody",
    "SetItem",
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
Generation = Annotated[int, Meta(ge=0, description="Only if the job has it; 0: only if there is none.")]


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


class SetItem(SetBody, frozen=True, kw_only=True, tag_field="do", tag="set"):
    """
    One set of a batch.
    """

    key: str
    if_generation: Generation | None = None


class MoveItem(MoveBody, frozen=True, kw_only=True, tag_field="do", tag="move"):
    """
    One move of a batch.
    """

    key: str
    if_generation: Generation | None = None


class CancelItem(Body, frozen=True, kw_only=True, tag_field="do", tag="cancel"):
    """
    One cancel of a batch.
    """

    key: str
    if_generation: Generation | None = None


Item: TypeAlias = SetItem | MoveItem | CancelItem


class BatchBody(Body, frozen=True):
    """
    Up to 10,000 changes, done in their order.
    """

    items: Annotated[tuple[Item, ...], Meta(max_length=10_000)]


class CancelBody(Body, frozen=True):
    """
    Which jobs to cancel: those whose key begins with `prefix`, which may not be empty.
    """

    prefix: Annotated[str, Meta(min_length=1, max_length=512)]
