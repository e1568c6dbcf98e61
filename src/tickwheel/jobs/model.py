"""
The data of the durable scheduler: a job, the writes to it, and their answers.

Times are milliseconds since the epoch on the store's clock, in int64. This module contains data only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from tickwheel.jobs.attempt_status import ANY_ATTEMPT, AttemptState, AttemptStatus
from tickwheel.jobs.history import CUT_OFF, Actor, HistoryRecord
from tickwheel.jobs.manifest import Manifest, Under
from tickwheel.jobs.once import Keep, Once
from tickwheel.jobs.outcome import Outcome
from tickwheel.jobs.pause import EVERYTHING, Pause, Resume, SetPause, scope_over
from tickwheel.jobs.progress import NOTE_MAX, Progress
from tickwheel.jobs.query import JobQuery, Page
from tickwheel.jobs.record import record
from tickwheel.jobs.retry import USUAL_RETRY, RetryPolicy

__all__ = [
    "ANY_ATTEMPT",
    "CUT_OFF",
    "EVERYTHING",
    "NOTE_MAX",
    "STOPPED",
    "USUAL_RETRY",
    "Actor",
    "Adopt",
    "Answer",
    "AttemptState",
    "AttemptStatus",
    "Begin",
    "Cancel",
    "Claim",
    "Claimed",
    "Contested",
    "Declare",
    "HistoryRecord",
    "Job",
    "JobQuery",
    "JobWrite",
    "Keep",
    "Manifest",
    "Move",
    "Once",
    "Outcome",
    "Page",
    "Pause",
    "Progress",
    "Recalled",
    "Redate",
    "Replay",
    "Resume",
    "RetryPolicy",
    "Set",
    "SetAnswer",
    "SetAside",
    "SetMode",
    "SetPause",
    "Settle",
    "Settled",
    "State",
    "Under",
    "Write",
    "key_of",
    "record",
    "scope_over",
]


STOPPED: Final = 0
"""The `expires_at` of a job that was asked to stop. No clock step changes it; a move or a replay removes it."""


class State(StrEnum):
    """
    The state of a job in its store. A finished job is no longer stored.
    """

    PENDING = "pending"
    RUNNING = "running"
    DEAD = "dead"


class SetMode(StrEnum):
    """
    The policies by which `set` treats a pending job of its key.
    """

    REPLACE = "replace"
    """Take the new due time and payload (a sliding debounce)."""
    KEEP = "keep"
    """Keep the pending job unchanged: the first set wins."""
    EARLIEST = "earliest"
    """Take the new payload, and the earlier of the two due times. A recurring job keeps its rhythm."""
    RESTART = "restart"
    """Begin a new series in place of the old series, and drop the pending runs of the old series."""


@record
class Job:
    """
    A job in the store.

    Attributes:
        key: Unique among live jobs; 1 to 512 bytes of UTF-8.
        generation: Grows with every set, move, replay and next run of any job. A store never uses a number twice.
        due_at: Time of firing, in ms since the epoch.
        payload: The encoded payload (JSON bytes), at most 1 MiB.
        target: The target kind: "handler", "webhook", "log", ...
        handler: The handler of that kind: a handler's name or a URL.
        attempt: Number of attempts begun in this generation.
        expires_at: Time after which the job no longer fires, or None. A move, a maximum wait or a next run changes it
            together with `due_at`; a retry does not. The time to live for the next run is in the recurrence
            (`expires_ms`). `STOPPED` if the job was asked to stop while it ran.
        recurrence: The canonical text of its recurrence; None for a one-time job.
        error: The last failure's text, or None.
        trace: A W3C traceparent, or None.
        first_set_at: Time of the first set. It stays if the pending job is set again. `max_wait_ms` counts from it.
        pause: The pause, or None. A paused job does not become due. A pause of a running job applies after the run.
        manifest: The name of the manifest that a recurring job belongs to, or None.
        sent_as: The message id of the run; None if the id follows from the generation.
        raised_in: The function of the user's code that raised `error`, as `module.function+line`, counted from the
            function's first line (0); None if no exception is known.
        lacks_handler: True if no live owner has its handler. Any node with the handler may claim the job.
        awaits_worker: True if its attempt is counted but has not started. Known only in the firing process.
    """

    key: str
    generation: int
    due_at: int
    payload: bytes = b"null"
    target: str = "handler"
    handler: str = ""
    attempt: int = 0
    retry: RetryPolicy = USUAL_RETRY
    expires_at: int | None = None
    recurrence: str | None = None
    state: State = State.PENDING
    error: str | None = None
    trace: str | None = None
    first_set_at: int = 0
    pause: Pause | None = None
    manifest: str | None = None
    sent_as: str | None = None
    raised_in: str | None = None
    # Each field above is a column (see `columns.py`). Add new fields here: the fields below have no columns.
    lacks_handler: bool = False
    awaits_worker: bool = False

    @property
    def due(self) -> datetime:
        """
        The due time in UTC: `due_at` as a datetime.
        """
        return datetime.fromtimestamp(self.due_at / 1000, UTC)

    @property
    def fire_id(self) -> str:
        """
        The name of one attempt: `key/generation/attempt`. All deliveries of the attempt have the same name.
        """
        return f"{self.key}/{self.generation}/{self.attempt}"

    @property
    def is_paused(self) -> bool:
        """
        True if the job is pending and paused; a running job is not paused yet.
        """
        return self.pause is not None and self.state is State.PENDING

    @property
    def is_scheduled(self) -> bool:
        """
        True if the job fires at its due time: it is pending, not paused, and not set aside because no node can run it.
        """
        return self.state is State.PENDING and self.pause is None and not self.lacks_handler


@record
class Set:
    """
    Create or update the job of a key.

    The answer is CREATED, REPLACED, KEPT, TOO_LATE or WRONG_GENERATION, with the resulting job. A paused job stays
    paused. A dead job is replaced, and the answer is CREATED. After REPLACED, a running job continues, but its `Settle`
    is refused because its generation is outdated. Only a pending job keeps its `first_set_at`.

    If *job* is a series (a recurring job) and the key already has a series, the current run is kept if it has begun, is
    due or was postponed. Further answers for series:

    * UNCHANGED: the rule, the payload and all other fields are equal; nothing is written.
    * CHANGED: a running job continues, and the change applies after its run.
    * CANCELLED: the new rule has no run left.
    * DEAD: the series is dead and stays dead, because the new rule has the same runs as the old rule.
    * RESTARTED: a new series began, as the mode requests.
    * FINISHED: the rule has no run, and there is no series to change.
    * OTHER_MANIFEST: the stored series and *job* belong to different manifests.

    If *job* names a manifest, the series of its key joins that manifest, even if the answer is UNCHANGED or DEAD. If
    *job* names no manifest, the series stays in its current one.

    Attributes:
        job: The job to store. Its generation and state are ignored. A `first_set_at` of 0 means now.
        max_wait_ms: With REPLACE: the maximum time from `first_set_at` to the due time.
        if_generation: Set only if the live job has this generation; 0: only if there is no live job.
        clock_step: Number of the clock step at which a relative due time was computed. It is not stored.
        counted_from: The caller's estimate of the store time, from which the relative due time was computed. The store
            corrects the due time by its own clock. None if the due time is final.
        over: Status of the attempt of a running job, if known. Without a status, the answer is TOO_LATE.
        keeps_payload: True to keep the payload of the live job, if there is one.
        has_phase: True if the caller chose the start of an interval, by `at=`. If False, a series keeps its rhythm.
        is_over: True if the rule has no further run, so that the write can only change an existing series.
        if_due_at: Set only if the pending job is due at this instant; the job's attempts and error are kept. The answer
            is TOO_LATE for a running job, and WRONG_GENERATION if the job is due at another instant.
        under: The declaration that the write belongs to, if any. If it is no longer valid, the answer is SUPERSEDED.
        actor: The author for the history, or None for no record. If the write takes effect and the act is to be
            recorded (see `Actor`), the record is added in the same transaction.
        once: The idempotency mark of the request. The answer is stored in the same transaction; a repeated write with
            this mark changes nothing and gets the stored answer. KEY_REUSED if the mark belongs to another request.
            Only for a store whose `keeps_answers` is True.
    """

    job: Job
    mode: SetMode = SetMode.REPLACE
    max_wait_ms: int | None = None
    if_generation: int | None = None
    clock_step: int | None = None
    over: AttemptStatus | None = None
    keeps_payload: bool = False
    has_phase: bool = False
    is_over: bool = False
    if_due_at: int | None = None
    actor: Actor | None = None
    under: Under | None = None
    once: Once | None = None
    counted_from: int | None = None


@record
class Move:
    """
    Give a pending job a new due time. The answer is MOVED, TOO_LATE, NOT_FOUND or WRONG_GENERATION.

    The job gets a new generation. If an attempt is counted, the job is treated as pending only if *over* (the attempt's
    status) says that the attempt never starts. If *keeps_next* is True, a recurring job gets an additional run at
    *due_at*, and its scheduled run also takes place. Other fields are as in `Set`.
    """

    key: str
    due_at: int
    if_generation: int | None = None
    clock_step: int | None = None
    over: AttemptStatus | None = None
    actor: Actor | None = None
    keeps_next: bool = False
    once: Once | None = None
    counted_from: int | None = None


@record
class Cancel:
    """
    Remove a pending or dead job. The answer is CANCELLED, STOPPING, TOO_LATE, NOT_FOUND or WRONG_GENERATION.

    If an attempt is counted, the job is treated as pending only if *over* (the attempt's status) says that the attempt
    never starts. A recurring job is removed even if a run has started. This run continues, its `Settle` is refused, and
    no other run begins. The answer CANCELLED contains the removed job. Other fields are as in `Set`.

    Attributes:
        stops: True to stop a started attempt; the answer is then STOPPING. A recurring job is removed. A one-time job
            expires (`STOPPED`), so that it is not retried. `request_withdrawal` notifies the owner.
        under: The declaration that the write belongs to, if any. The answer is NOT_FOUND for a job of another manifest.
    """

    key: str
    if_generation: int | None = None
    over: AttemptStatus | None = None
    actor: Actor | None = None
    stops: bool = False
    under: Under | None = None
    once: Once | None = None


@record
class Replay:
    """
    Make a dead job pending again at *due_at*, attempt 0, with a new generation.

    The answer is REPLAYED, NOT_FOUND or WRONG_GENERATION.
    """

    key: str
    due_at: int
    if_generation: int | None = None
    actor: Actor | None = None
    once: Once | None = None
    counted_from: int | None = None


@record
class Adopt:
    """
    Take over a pending or dead job from another store, with its attempt, error and due times unchanged.

    The answer is CREATED, or WRONG_GENERATION if the key has a live job or an unexpected dead job. *if_generation* is
    the generation of the dead job to replace, or 0 if the key must have no dead job. All later generations are larger
    than the job's old generation, so that no fire id is used twice.
    """

    job: Job
    if_generation: int = 0


@record
class Begin:
    """
    Count an attempt before the job is dispatched.

    The answer is BEGUN, TOO_LATE, PAUSED, NOT_FOUND, WRONG_GENERATION or NOT_OWNER; it contains no job. The owner
    begins jobs in bulk, shortly before they are due, so that no firing waits for a commit. If the outcome of a Begin is
    unknown, repeat it: TOO_LATE means that the job is already running.

    *job* is the pending job, as returned by `due` or an answer. The store finds it by due time and generation, without
    a search by key. If either of the two differs, the answer is WRONG_GENERATION. The write adds one to `attempt`.
    """

    job: Job
    epoch: int


@record
class SetAside:
    """
    Release a pending job that its owner has no handler for, so that any node with the handler can claim it.

    The answer is SETTLED, TOO_LATE, PAUSED, NOT_FOUND, WRONG_GENERATION or NOT_OWNER; it contains no job. The job keeps
    its due time, generation and attempts, but is not among any shard's due jobs until a node claims it (`take_up`).
    *error* is the reason why the handler rejects the job; None if the handler is missing. *job* is as in a `Begin`.
    """

    job: Job
    epoch: int
    error: str | None = None


class Settled(StrEnum):
    """
    The ways in which a firing ends.
    """

    DONE = "done"
    """The job is removed. A recurring job is instead pending again at `due_at`, with attempt 0 and a new generation."""
    AGAIN = "again"
    """The job is pending again at `due_at` (retry or snooze), in the same generation, with the write's `attempt`."""
    DEAD = "dead"
    """The job is a dead letter with the error and `attempt` of the write. Its key is free for a new job."""


@record
class Settle:
    """
    Acknowledge a finished firing. The answer is SETTLED, NOT_FOUND, WRONG_GENERATION or NOT_OWNER.

    The answer SETTLED contains the job, or None if the job is gone. If the job is not running, the answer is
    WRONG_GENERATION.

    Attributes:
        job: The job, as in the `Begin` of the attempt.
        attempt: The new number of attempts; a snooze does not count its attempt.
        due_at: The next due time. DONE with a due time means that the job recurs; AGAIN with None keeps the due time.
        recurrence: The canonical text of the recurrence, if the job continues to exist; None keeps the current text.
        record: The history record, stored in the same transaction if the answer is SETTLED.
        is_first: True if this outcome was never sent before. *record* is then stored even if the job was removed or set
            again, because the attempt was made. If False, an earlier write may have stored the record.
        pause: With DONE: the new pause of the job, unless it is already paused; None for no pause.
        raised_in: The function that raised *error*, or None.
    """

    job: Job
    epoch: int
    how: Settled = Settled.DONE
    attempt: int = 0
    due_at: int | None = None
    error: str | None = None
    recurrence: str | None = None
    record: HistoryRecord | None = None
    is_first: bool = False
    pause: Pause | None = None
    raised_in: str | None = None


@record
class Redate:
    """
    Rewrite the due time of a pending job after a clock step.

    The answer is MOVED, TOO_LATE, PAUSED, NOT_FOUND, WRONG_GENERATION or NOT_OWNER. Generation and attempt stay
    unchanged. `expires_at` and `first_set_at` move with the due time. WRONG_GENERATION means that the job has changed
    since the owner read it. This answer contains the stored job. *recurrence* is the canonical text of the recurrence;
    the anchor of an interval may have moved.
    """

    job: Job
    epoch: int
    due_at: int
    recurrence: str | None = None


@record
class Declare:
    """
    Begin the declaration of a manifest. The declaration's other writes follow in the same batch.

    *manifest* is the new record, and *keys* are the keys that the declaration sets. *key* is any key of the partition
    (the part of the store) to write to. After the first two answers, the following writes are not valid:

    * SUPERSEDED: the stored version is not *if_version*.
    * OTHER_MANIFEST, with the job: a job of *keys* belongs to another manifest.
    * UNCHANGED: *manifest* has the stored version; nothing is written.
    * CHANGED: the new record is stored.
    """

    key: str
    manifest: Manifest
    if_version: int
    keys: tuple[str, ...] = ()


@record
class Claim:
    """
    Begin jobs that earlier writes of the batch create.

    A claim is the last write of its batch, and only for stores with `claims_sets`. *indexes* are the positions of plain
    `Set` writes. A job is begun if its `Set` was answered CREATED and no later write changes it; but the store may
    leave any of these jobs pending. The answer to each `Set` shows its job as pending. The answer to the claim is
    NOT_OWNER, or BEGUN as a `Claimed`. *key* is any key of the partition to write to.
    """

    key: str
    epoch: int
    indexes: Sequence[int]


JobWrite: TypeAlias = Set | Move | Cancel | SetPause | Resume | Replay | Adopt | Begin | SetAside | Settle | Redate

Write: TypeAlias = JobWrite | Declare | Keep | Claim

Contested: TypeAlias = Set | Move | Cancel | SetPause
"""A caller's write to a job whose attempt may already be counted. Its field `over` has the attempt's status."""


def key_of(write: Write) -> str:
    """
    Return the key of *write*.
    """
    return write.job.key if isinstance(write, (Set, Adopt, Begin, SetAside, Settle, Redate)) else write.key


@record
class Answer:
    """
    The outcome of a write, and the resulting job, or None.
    """

    outcome: Outcome
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Claimed(Answer):
    """
    The answer to a `Claim`. *indexes* has the indexes of the jobs that were begun, in order.
    """

    indexes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Recalled(Answer):
    """
    The stored answer to an earlier write with the same idempotency mark. *data* is the reply that a `Keep` stored.
    """

    data: bytes = b""


if TYPE_CHECKING:

    @record
    class SetAnswer(Answer):
        job: Job

else:
    SetAnswer = Answer  # the class is for type checkers
