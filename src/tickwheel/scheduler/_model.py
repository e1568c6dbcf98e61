"""
The nouns of the durable scheduler: a job, what may be asked of it, and what is answered.

Times are milliseconds since the epoch by the store's clock, in int64. Nothing here does anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "Answer",
    "Begin",
    "Cancel",
    "Job",
    "JobQuery",
    "Move",
    "Outcome",
    "Page",
    "Replay",
    "RetryPolicy",
    "Set",
    "SetMode",
    "Settle",
    "Settled",
    "State",
    "Write",
]


class State(StrEnum):
    """
    What the store knows of a job. A job that is done has no row.
    """

    PENDING = "pending"
    RUNNING = "running"
    DEAD = "dead"


class SetMode(StrEnum):
    """
    What `set` does to a job of the same key that is already pending.
    """

    REPLACE = "replace"
    """Take the new instant and payload: a sliding debounce."""
    KEEP = "keep"
    """Leave the first as it is: first wins."""
    EARLIEST = "earliest"
    """Take the new payload, and the earlier of the two instants."""


class Outcome(StrEnum):
    """
    What came of a write; every write has exactly one.
    """

    CREATED = "created"
    REPLACED = "replaced"
    KEPT = "kept"
    MOVED = "moved"
    CANCELLED = "cancelled"
    BEGUN = "begun"
    SETTLED = "settled"
    REPLAYED = "replayed"
    TOO_LATE = "too_late"
    """The job is running: it can be neither moved nor cancelled any more."""
    NOT_FOUND = "not_found"
    WRONG_GENERATION = "wrong_generation"
    """The job has another generation than the caller asked for, or than the firing that wants to settle it."""
    NOT_OWNER = "not_owner"
    """The writer's epoch is not the shard's any more: a zombie's settle, refused."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """
    When a failed job is tried again.

    Attributes:
        attempts: How often at most, the first included; 1 to 1000.
        kind: "exponential" (base, 2 base, 4 base, ...), "linear" (base, 2 base, 3 base, ...) or "list".
        base_ms: The first wait.
        max_ms: The longest wait.
        jitter: Fraction of the wait that is drawn at random, 0 to 1.
        waits_ms: The waits of a "list", the last one repeated.
    """

    attempts: int = 5
    kind: str = "exponential"
    base_ms: int = 1_000
    max_ms: int = 3_600_000
    jitter: float = 0.1
    waits_ms: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """
    A job as the store holds it.

    Attributes:
        key: Unique among live jobs; 1 to 512 bytes of UTF-8.
        generation: Grows with every set, move and replay of any job; never used twice by a store.
        due_at: When to fire.
        payload: The encoded payload (JSON bytes), at most 1 MiB.
        target: Which kind of place it goes to: "handler", "webhook", "log", ...
        handler: Which one of that kind: a handler's name, a URL.
        attempt: How many attempts were begun in this generation.
        retry: What to do when it fails.
        expires_at: After which instant it is not worth firing, or None.
        recurrence: The canonical text of its recurrence, or None for one time.
        state: See `State`.
        error: The last failure's text, or None.
        trace: A W3C traceparent, or None.
        first_set_at: When this life of the key began; a debounce's maximum wait counts from it.
    """

    key: str
    generation: int
    due_at: int
    payload: bytes = b"null"
    target: str = "handler"
    handler: str = ""
    attempt: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    expires_at: int | None = None
    recurrence: str | None = None
    state: State = State.PENDING
    error: str | None = None
    trace: str | None = None
    first_set_at: int = 0

    @property
    def fire_id(self) -> str:
        """
        The name of one firing, the same each time it is delivered: `key/generation/attempt`.
        """
        return f"{self.key}/{self.generation}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class Set:
    """
    Upsert by key. Answers CREATED, REPLACED, KEPT or WRONG_GENERATION, with the job as it now is.

    A running job of that key goes on, and its settle is refused: it has become an older generation. A dead one is replaced.

    Attributes:
        job: What to store; its generation and state are ignored.
        mode: What to do with a pending one.
        max_wait_ms: With REPLACE: never move the instant past `first_set_at` plus this.
        if_generation: Only if the live job has this generation; 0: only if there is none.
    """

    job: Job
    mode: SetMode = SetMode.REPLACE
    max_wait_ms: int | None = None
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """
    Give a pending job another instant and a new generation. Answers MOVED, TOO_LATE, NOT_FOUND or WRONG_GENERATION.
    """

    key: str
    due_at: int
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    """
    Remove a pending or dead job. Answers CANCELLED, TOO_LATE, NOT_FOUND or WRONG_GENERATION.
    """

    key: str
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """
    Make a dead job pending again at *due_at*, attempt 0, with a new generation. Answers REPLAYED, NOT_FOUND or WRONG_GENERATION.
    """

    key: str
    due_at: int
    if_generation: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """
    Count an attempt before the job is handed over. Answers BEGUN, NOT_FOUND, WRONG_GENERATION or NOT_OWNER.

    The owner writes it in bulk, shortly before the jobs are due, so that no commit stands between an instant and its firing.
    """

    key: str
    generation: int
    attempt: int
    epoch: int


class Settled(StrEnum):
    """
    How a firing ended.
    """

    DONE = "done"
    """Gone, or pending again at `due_at` where the job recurs."""
    AGAIN = "again"
    """Pending again at `due_at` (retry or snooze), with the attempt given."""
    DEAD = "dead"
    """Parked with its error; it does not hold its key."""


@dataclass(frozen=True, slots=True)
class Settle:
    """
    End a firing. Answers SETTLED, NOT_FOUND, WRONG_GENERATION or NOT_OWNER.
    """

    key: str
    generation: int
    attempt: int
    epoch: int
    how: Settled
    due_at: int | None = None
    error: str | None = None


Write: TypeAlias = Set | Move | Cancel | Replay | Begin | Settle


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came of a write, and the job as it is afterwards (None where there is none).
    """

    outcome: Outcome
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class JobQuery:
    """
    Which jobs to list, in key order within (state), from just after *cursor*.
    """

    prefix: str = ""
    state: State | None = None
    due_from: int | None = None
    due_until: int | None = None
    handler: str | None = None
    cursor: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class Page:
    """
    One page of a list; *cursor* is None on the last.
    """

    jobs: tuple[Job, ...]
    cursor: str | None = None
