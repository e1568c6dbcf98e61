"""
The rules by which a write changes a job, written once for all stores. A rule reads no clock and no table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar

from tickwheel.jobs.definition import Definition
from tickwheel.jobs.message import same_run, was_tried, with_message_id
from tickwheel.jobs.model import (
    STOPPED,
    Adopt,
    Answer,
    AttemptState,
    AttemptStatus,
    Begin,
    Cancel,
    Contested,
    Declare,
    Job,
    JobWrite,
    Move,
    Outcome,
    Pause,
    Recalled,
    Redate,
    Replay,
    Resume,
    Set,
    SetAside,
    SetMode,
    SetPause,
    Settle,
    Settled,
    State,
    Write,
)
from tickwheel.jobs.record import replace
from tickwheel.jobs.recurrence import Recurrence
from tickwheel.jobs.rows import is_default_but, with_other
from tickwheel.jobs.series import (
    at_end,
    changed,
    changed_dead,
    gone_on,
    is_series,
    length_of,
    moved,
    of_next_life,
    runs_besides,
    then_of,
    wanted_of,
    without_then,
)

__all__ = [
    "ATTEMPT",
    "BEGUN",
    "GONE",
    "NOT_OWNER",
    "PLAIN_SET",
    "REQUESTS_KEPT_MS",
    "Decision",
    "created",
    "decide",
    "holds",
    "is_counted",
    "is_plain_set",
    "is_undecided",
    "rescued",
]

Decision: TypeAlias = tuple[Answer, Job | None]
"""The answer, and the job to store: the same object if nothing changed, None if the job was removed."""

NextGeneration: TypeAlias = Callable[[], int]
_Relative = TypeVar("_Relative", Move, Replay)

BEGUN = Answer(Outcome.BEGUN)
GONE = Answer(Outcome.SETTLED)
NOT_OWNER = Answer(Outcome.NOT_OWNER)
NOT_FOUND = Answer(Outcome.NOT_FOUND)
TOO_LATE = Answer(Outcome.TOO_LATE)
PAUSED = Answer(Outcome.PAUSED)
WRONG_GENERATION = Answer(Outcome.WRONG_GENERATION)
ATTEMPT: Final = attrgetter("generation", "due_at", "attempt")
REQUESTS_KEPT_MS: Final = 60_000
"""Maximum age, in ms, of a stored request about an attempt."""
_WITHDRAWAL_HOLDS_MS: Final = 5_000  # a waiting caller repeats its request each second

_TAKEN_IN: Final = frozenset((Outcome.UNCHANGED, Outcome.CHANGED, Outcome.KEPT, Outcome.DEAD))
"""Outcomes of a `Set` after which the key still has its earlier series."""
_CREATED: Final = Outcome.CREATED  # a constant, as an enum look-up is slow
_PENDING: Final = State.PENDING
_redated: Final = with_other("due_at", "expires_at", "recurrence")
_stored: Final = with_other("generation", "due_at", "payload", "expires_at", "state", "first_set_at", "pause")
"""Returns a copy of a job with new values in the named columns. `replace` takes twice as long."""
_reborn: Final = with_other("generation", "due_at", "attempt", "state", "expires_at", "recurrence", "sent_as")
PLAIN_SET: Final = (
    "key",
    "generation",
    "due_at",
    "payload",
    "target",
    "handler",
    "retry",
    "expires_at",
    "state",
    "trace",
)
"""The columns of a job that may have any value in a plain `Set` (see `is_plain_set`). The rest have their defaults."""
_PLAIN_WRITE: Final = (
    "mode",
    "if_generation",
    "clock_step",
    "over",
    "keeps_payload",
    "has_phase",
    "counted_from",
)
"""The fields that may have any value in a plain `Set` (see `is_plain_set`)."""
is_plain_set: Final = is_default_but(
    Set,
    *_PLAIN_WRITE,
    nested={"job": (Job, PLAIN_SET)},
    also=f"not each.if_generation and each.job.expires_at != {STOPPED}",
)
"""Returns True if a `Set` for a new key creates a job with defaults in all columns except `PLAIN_SET`."""


def decide(  # noqa: C901, PLR0911 - one branch for each kind of write
    write: JobWrite, job: Job | None, now: int, next_generation: NextGeneration
) -> Decision:
    """
    Return the result of *write*. *job* is the live or dead job of its key, or None.

    The store must have checked that a Begin, SetAside, Settle or Redate comes from the owner. *next_generation* is
    called once if the job gets a new generation.
    """
    match write:
        case Set():
            return _set_or_change(_counted_set(write, now), job, now, next_generation)
        case Begin() | SetAside():
            return _begin_or_set_aside(write, job)
        case Settle():
            return _settle(write, job, now, next_generation)
        case Move():
            return _move(_counted(write, now), job, now, next_generation)
        case Cancel():
            return _cancel(write, job)
        case SetPause():
            return _pause(write, job, now)
        case Resume():
            return _resume(write, job)
        case Replay():
            return _replay(_counted(write, now), job, now, next_generation)
        case Adopt():
            return _adopt(write, job, next_generation)
        case Redate():
            return _redate(write, job)


def created(write: Set, generation: int, now: int) -> Answer:
    """
    Return the answer to *write*, a plain `Set` (see `is_plain_set`) of a key without a job.
    """
    job = write.job
    due_at, expires_at = job.due_at, job.expires_at
    if write.counted_from is not None:
        due_at += now - write.counted_from
        if expires_at is not None:
            expires_at += now - write.counted_from
    return Answer(
        _CREATED,
        Job(  # the columns of `PLAIN_SET`, by position, as by name it takes longer
            job.key,
            generation,
            due_at,
            job.payload,
            job.target,
            job.handler,
            0,
            job.retry,
            expires_at,
            None,
            _PENDING,
            None,
            job.trace,
            now,
        ),
    )


def values_of(write: Write) -> tuple[str | int | None, ...]:
    match write:
        case Set(job=job) | Adopt(job=job):
            texts = (job.key, job.target, job.handler, job.recurrence, job.trace, job.manifest)
            return (*texts, job.due_at, job.expires_at, job.first_set_at)
        case Declare(manifest=manifest):
            return (write.key, manifest.name, manifest.digest, manifest.revision, manifest.rules)
        case Move() | Replay():
            return (write.key, write.due_at)
        case Settle() | Redate():
            return (write.due_at, write.recurrence)
        case SetPause():
            return (write.key, write.by, write.note)
        case _:
            return ()


def is_undecided(write: Write, answer: Answer) -> bool:
    job = answer.job
    if answer.outcome is not Outcome.TOO_LATE or job is None or not isinstance(write, Contested):
        return False
    if isinstance(answer, Recalled):
        return False
    over = write.over
    if over is None or over.standing is not AttemptState.STARTED:
        return True
    # If the status is of an earlier attempt, nothing is known of the counted attempt.
    return (over.generation, over.due_at, over.attempt) != (job.generation, job.due_at, job.attempt)


def is_counted(attempt: Job, job: Job | None) -> bool:
    """
    Return True if the stored *job* is running, and *attempt* is still its current attempt.
    """
    return job is not None and job.state is State.RUNNING and ATTEMPT(job) == ATTEMPT(attempt)


def holds(attempt: int, age_ms: int) -> bool:
    # The age is negative if the clock was set back.
    return abs(age_ms) <= (REQUESTS_KEPT_MS if attempt < 0 else _WITHDRAWAL_HOLDS_MS)


def rescued(job: Job) -> Job:
    """
    Return a running *job* as its next owner gets the job: pending, with the same number of attempts.
    """
    return replace(job, state=State.PENDING)


def _counted_set(write: Set, now: int) -> Set:
    if write.counted_from is None:
        return write
    job, text = write.job, write.job.recurrence
    due_at = job.due_at + now - write.counted_from
    if text is not None:
        text = Recurrence.from_text(text).moved(now - write.counted_from).to_text()
    return replace(write, job=_redated(job, due_at, _shifted(job, due_at), text))


def _counted(write: _Relative, now: int) -> _Relative:
    return write if write.counted_from is None else replace(write, due_at=write.due_at + now - write.counted_from)


def _set_or_change(write: Set, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    if job is not None and job.manifest is not None and write.job.manifest not in (None, job.manifest):
        return Answer(Outcome.OTHER_MANIFEST, job), job
    if job is not None and _is_kept(write, job):
        return _taken_in(write, *_change_series(write, job, now, next_generation))
    if write.is_over:
        return Answer(Outcome.FINISHED, job), job
    return (_set if write.if_due_at is None else _change)(write, job, now, next_generation)


def _is_kept(write: Set, job: Job) -> bool:
    if job.recurrence is None or write.job.recurrence is None or write.mode is SetMode.RESTART:
        return False
    if not is_series(job) or not is_series(write.job):  # another program's text: the owed runs are unknown
        return False
    wanted = Definition.of(write.job).series
    return job.state is not State.DEAD or Definition.of(job).series.has_same_runs(wanted, has_phase=write.has_phase)


def _change_series(  # noqa: PLR0911 - one return for each answer
    write: Set, job: Job, now: int, next_generation: NextGeneration
) -> Decision:
    is_dead = job.state is State.DEAD
    if write.if_generation not in (None, 0 if is_dead else job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    if is_dead:
        return Answer(Outcome.DEAD, job), job
    if write.mode is SetMode.KEEP:
        return Answer(Outcome.KEPT, job), job
    wanted = wanted_of(write, job)
    is_waiting = write.mode is SetMode.EARLIEST and job.state is State.PENDING
    comes_earlier = is_waiting and write.job.due_at < job.due_at
    if Definition.at_last(job).is_like(wanted) and not comes_earlier:
        return Answer(Outcome.UNCHANGED, job), job
    known = _known(job, write.over)
    if known is None:
        return Answer(Outcome.TOO_LATE, job), job
    if known.state is State.RUNNING:
        after = at_end(known, wanted)
        return Answer(Outcome.CHANGED, after), after
    return _change_pending(write, known, wanted, now, next_generation)


def _taken_in(write: Set, answer: Answer, after: Job | None) -> Decision:
    name = write.job.manifest
    if name is None or after is None or after.manifest == name or answer.outcome not in _TAKEN_IN:
        return answer, after
    taken = replace(after, manifest=name)
    return Answer(answer.outcome, taken), taken


def _change_pending(write: Set, job: Job, wanted: Definition, now: int, next_generation: NextGeneration) -> Decision:
    pending = changed(job, wanted, now, next_generation)
    if pending is None:
        return Answer(Outcome.CANCELLED, job), None
    if write.mode is SetMode.EARLIEST and write.job.due_at < pending.due_at:
        due_at = write.job.due_at
        text = moved(pending, due_at, is_put_off=False)
        pending = replace(pending, due_at=due_at, expires_at=_shifted(pending, due_at), recurrence=text)
    if pending.trace != write.job.trace:
        pending = replace(pending, trace=write.job.trace)
    return Answer(Outcome.CHANGED, pending), pending


def _set(write: Set, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    wanted, before = write.job, job
    due_at, payload, first_set_at = wanted.due_at, wanted.payload, wanted.first_set_at or now
    is_live = job is not None and job.state is not State.DEAD
    if job is not None or write.if_generation:  # most sets are of new keys
        if write.if_generation is not None and write.if_generation != (job.generation if job and is_live else 0):
            return Answer(Outcome.WRONG_GENERATION, job), job
        job = _known(job, write.over)
        if before is not None and job is None:
            return Answer(Outcome.TOO_LATE, before), before
        if job is not None and job.state is State.PENDING:
            if write.mode is SetMode.KEEP:
                return Answer(Outcome.KEPT, job), job
            first_set_at = job.first_set_at
            if write.mode is SetMode.EARLIEST:
                due_at = min(due_at, job.due_at)
        if write.keeps_payload and before is not None and is_live:
            payload = before.payload
    if write.max_wait_ms is not None and write.mode is SetMode.REPLACE:
        due_at = min(due_at, first_set_at + write.max_wait_ms)
    stored = _stored(
        wanted,
        next_generation(),
        due_at,
        payload,
        None if wanted.expires_at is None else _shifted(wanted, due_at),
        _PENDING,
        first_set_at,
        None if before is None else before.pause,
    )
    if before is not None and before.manifest is not None and wanted.manifest is None and wanted.recurrence is not None:
        stored = replace(stored, manifest=before.manifest)
    over_live = Outcome.RESTARTED if write.mode is SetMode.RESTART else Outcome.REPLACED
    return Answer(over_live if is_live else _CREATED, stored), stored


def _change(write: Set, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    if job is None or job.state is State.DEAD:
        return Answer(Outcome.WRONG_GENERATION, job), job
    known = _known(job, write.over)
    if known is not None and known.state is State.RUNNING:
        return Answer(Outcome.TOO_LATE, job), job
    if known is not None and known.due_at != write.if_due_at:
        return Answer(Outcome.WRONG_GENERATION, job), job
    if known is not None:
        attempt = min(known.attempt, write.job.retry.attempts - 1)  # at least one attempt is left
        write = replace(write, job=replace(write.job, attempt=attempt, error=known.error, raised_in=known.raised_in))
    answer, after = _set(write, job, now, next_generation)
    if known is not None and after is not None and after is not job:
        after = same_run(known, after)
        answer = Answer(answer.outcome, after)
    return answer, after


def _move(write: Move, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    if job is None or job.state is State.DEAD:
        return Answer(Outcome.NOT_FOUND, job), job
    if write.if_generation not in (None, job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    known = _known(job, write.over)
    if known is None or known.state is State.RUNNING:
        return Answer(Outcome.TOO_LATE, job), job
    text = known.recurrence
    if text is not None and not write.keeps_next:
        text = moved(known, write.due_at, is_put_off=write.due_at > now)
    elif text is not None and not was_tried(known) and known.due_at > write.due_at:
        text = runs_besides(known)
    plainly = known if text is known.recurrence else replace(known, recurrence=text)
    after = same_run(known, _next_life(plainly, write.due_at, next_generation()))
    return Answer(Outcome.MOVED, after), after


def _cancel(write: Cancel, job: Job | None) -> Decision:
    if job is None or (write.under is not None and write.under.manifest != job.manifest):
        return Answer(Outcome.NOT_FOUND, job), job
    if write.if_generation not in (None, job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    known = _known(job, write.over)
    if known is None or (known.state is State.RUNNING and job.recurrence is None and not write.stops):
        return Answer(Outcome.TOO_LATE, job), job
    if known.state is not State.RUNNING or not write.stops:
        return Answer(Outcome.CANCELLED, known), None
    if job.recurrence is not None:
        return Answer(Outcome.STOPPING, job), None
    stopped = job if job.expires_at == STOPPED else replace(job, expires_at=STOPPED)
    return Answer(Outcome.STOPPING, stopped), stopped


def _pause(write: SetPause, job: Job | None, now: int) -> Decision:
    if job is None or job.state is State.DEAD:
        return Answer(Outcome.NOT_FOUND, job), job
    if write.if_generation not in (None, job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    known = _known(job, write.over)
    if known is None or (known.state is State.RUNNING and job.recurrence is None):
        return Answer(Outcome.TOO_LATE, job), job
    paused = replace(known, pause=Pause(now, write.by, write.note), lacks_handler=False)
    return Answer(Outcome.PAUSED, paused), paused


def _resume(write: Resume, job: Job | None) -> Decision:
    if job is None or job.state is State.DEAD:
        return Answer(Outcome.NOT_FOUND, job), job
    if write.if_generation not in (None, job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    if job.pause is None:
        return Answer(Outcome.KEPT, job), job
    resumed = replace(job, pause=None)
    return Answer(Outcome.RESUMED, resumed), resumed


def _known(job: Job | None, over: AttemptStatus | None) -> Job | None:
    # Returns None if an attempt of the job is counted, and *over* is not the status of this attempt.
    if job is None or job.state is not State.RUNNING:
        return job
    if over is None:
        return None
    if over.generation and ATTEMPT(over) != ATTEMPT(job):
        return None
    if over.standing is AttemptState.STARTED:
        return job
    is_counted = over.standing is AttemptState.CUT_OFF
    return replace(job, state=State.PENDING, attempt=job.attempt - (not is_counted))


def _replay(write: Replay, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    if job is None or job.state is not State.DEAD:
        return Answer(Outcome.NOT_FOUND, job), job
    if write.if_generation not in (None, job.generation):
        return Answer(Outcome.WRONG_GENERATION, job), job
    if job.recurrence is not None:  # an ended series has missed nothing
        job = replace(job, recurrence=moved(job, write.due_at, is_put_off=True))
    again = replace(_next_life(job, write.due_at, next_generation()), first_set_at=now)
    return Answer(Outcome.REPLAYED, again), again


def _adopt(write: Adopt, job: Job | None, next_generation: NextGeneration) -> Decision:
    is_live = job is not None and job.state is not State.DEAD
    if is_live or write.if_generation != (job.generation if job else 0):
        return Answer(Outcome.WRONG_GENERATION, job), job
    state = State.DEAD if write.job.state is State.DEAD else State.PENDING
    pause = write.job.pause if state is State.PENDING else None
    adopted = replace(
        with_message_id(write.job), generation=next_generation(), state=state, lacks_handler=False, pause=pause
    )
    return Answer(Outcome.CREATED, adopted), adopted


def _begin_or_set_aside(write: Begin | SetAside, job: Job | None) -> Decision:
    if job is None or job.state is State.DEAD:
        return NOT_FOUND, job
    if not _is_same_firing(job, write.job):
        return WRONG_GENERATION, job
    if job.state is State.RUNNING:
        return TOO_LATE, job
    if job.pause is not None:
        return PAUSED, job
    if isinstance(write, SetAside):
        return GONE, job if job.lacks_handler else _aside(job, write.error)
    return BEGUN, replace(job, state=State.RUNNING, attempt=job.attempt + 1, lacks_handler=False)


def _aside(job: Job, error: str | None) -> Job:
    aside = replace(job, lacks_handler=True)
    return aside if error is None else replace(aside, error=error, raised_in=None)


def _settle(write: Settle, job: Job | None, now: int, next_generation: NextGeneration) -> Decision:
    if job is None or job.state is State.DEAD:
        return NOT_FOUND, job
    if not _is_same_firing(job, write.job) or job.state is not State.RUNNING:
        return WRONG_GENERATION, job
    then = then_of(job)
    if then is not None:
        return _settle_and_change(write, job, then, now, next_generation)
    if write.how is Settled.DONE:
        if write.due_at is None:
            return GONE, None
        after = replace(_next_life(job, write.due_at, next_generation()), error=write.error, raised_in=write.raised_in)
        if write.pause is not None and after.pause is None:
            after = replace(after, pause=write.pause)
        if write.recurrence is not None:
            after = replace(after, recurrence=write.recurrence)
    elif write.how is Settled.AGAIN:
        due_at = job.due_at if write.due_at is None else write.due_at
        was_made = not write.attempt and due_at != job.due_at  # else no field shows that attempt 1 was snoozed
        after = replace(
            with_message_id(job) if was_made else job,
            state=State.PENDING,
            attempt=write.attempt,
            due_at=due_at,
            error=write.error,
            raised_in=write.raised_in,
            recurrence=write.recurrence or job.recurrence,
        )
    else:
        after = replace(
            job,
            state=State.DEAD,
            attempt=write.attempt,
            error=write.error,
            raised_in=write.raised_in,
            pause=None,
        )
    return Answer(Outcome.SETTLED, after), after


def _settle_and_change(
    write: Settle, job: Job, then: Definition, now: int, next_generation: NextGeneration
) -> Decision:
    before = replace(job, recurrence=without_then(job.recurrence))
    write = replace(write, recurrence=without_then(write.recurrence))
    draw = cache(next_generation)  # a store has reserved one generation for each write
    _, after = _settle(write, before, now, draw)
    if after is None:
        after = gone_on(before, then, now)
    if after is not None:
        after = changed(after, then, now, draw) if after.state is State.PENDING else changed_dead(after, then)
    return (GONE if after is None else Answer(Outcome.SETTLED, after)), after


def _redate(write: Redate, job: Job | None) -> Decision:
    if job is None or job.state is State.DEAD:
        return NOT_FOUND, job
    if not _is_same_firing(job, write.job):
        return Answer(Outcome.WRONG_GENERATION, job), job
    if job.state is State.RUNNING:
        return TOO_LATE, job
    if job.pause is not None:  # a resume computes its due time
        return Answer(Outcome.PAUSED, job), job
    after = replace(
        with_message_id(job),
        due_at=write.due_at,
        expires_at=_shifted(job, write.due_at),
        first_set_at=job.first_set_at + write.due_at - job.due_at,
        recurrence=write.recurrence,
    )
    return Answer(Outcome.MOVED, after), after


def _is_same_firing(job: Job, staged: Job) -> bool:
    # A retry has the generation of the first attempt but another due time. An entry that was staged before the retry
    # must not claim it early.
    return (job.generation, job.due_at) == (staged.generation, staged.due_at)


def _next_life(job: Job, due_at: int, generation: int) -> Job:
    expires_at, recurrence = _shifted(job, due_at), job.recurrence
    if expires_at is not None and recurrence is not None and (length := length_of(recurrence)) is not None:
        expires_at, recurrence = due_at + length, of_next_life(recurrence)
    elif expires_at is not None and recurrence is None and (job.state is State.DEAD or job.attempt):
        # Retries may have moved the due time, and the original time to live is no longer known. Use at least this.
        expires_at = max(expires_at, due_at + (job.expires_at or 0) - job.first_set_at)
    expires_at = None if job.expires_at == STOPPED else expires_at
    return _reborn(job, generation, due_at, 0, _PENDING, expires_at, recurrence, None)


def _shifted(job: Job, due_at: int) -> int | None:
    return job.expires_at if job.expires_at in (None, STOPPED) else job.expires_at + due_at - job.due_at
