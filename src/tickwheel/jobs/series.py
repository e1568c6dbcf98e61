"""
The rules by which a `Set` changes an existing series, and by which other writes change a recurrence.

    state of the series      if rule and payload are equal   if rule or payload differs
    pending                  unchanged, nothing is written   changed: a new generation; the attempts stay
    running                  unchanged, nothing is written   changed: the new definition applies after the run
    dead                     dead; nothing is written        a new series if the runs differ; if not, stays dead

If the stored recurrence is not in canonical form, it is not interpreted, and a `Set` replaces the whole job.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from tickwheel.errors import MissingExtraError, RecurrenceError
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.errors import InvalidRecurrenceError
from tickwheel.jobs.message import same_run, was_tried
from tickwheel.jobs.model import Job, Set, State
from tickwheel.jobs.record import replace
from tickwheel.jobs.recurrence import Recurrence

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "at_end",
    "changed",
    "changed_dead",
    "gone_on",
    "is_series",
    "length_of",
    "moved",
    "of_next_life",
    "runs_besides",
    "then_of",
    "wanted_of",
    "without_then",
]

_LENGTH = re.compile(r',"expires_ms":(-?\d+)')
"""Matches the field `expires_ms` in a canonical text."""


def is_series(job: Job) -> bool:
    if job.recurrence is None:
        return False
    try:
        Recurrence.from_text(job.recurrence)
    except InvalidRecurrenceError:
        return False
    return True


def wanted_of(write: Set, job: Job) -> Definition:
    wanted = Definition.of(write.job, has_phase=write.has_phase)
    return wanted._replace(payload=Definition.at_last(job).payload) if write.keeps_payload else wanted


def changed(job: Job, wanted: Definition, now: int, next_generation: Callable[[], int]) -> Job | None:
    before = Definition.of(job)
    has_begun = job.attempt > 0
    try:
        due_at, series = before.series.turned_into(
            wanted.series, job.key, job.due_at, now, has_begun=has_begun, has_phase=wanted.has_phase
        )
    except (RecurrenceError, MissingExtraError):  # the search for an instant gave up: the due run reports the error
        due_at, series = job.due_at, replace(wanted.series, runs=before.series.runs)
    if due_at is None:
        return None
    base = due_at
    if series.expires_ms is not None and job.expires_at is not None:
        base = job.expires_at - series.expires_ms
        series = replace(series, expires_ms=wanted.expires_ms)
    after = replace(
        job,
        generation=next_generation(),
        due_at=due_at,
        payload=wanted.payload,
        target=wanted.target,
        handler=wanted.handler,
        retry=wanted.retry,
        attempt=min(job.attempt, wanted.retry.attempts - 1),  # at least one attempt is left
        expires_at=None if wanted.expires_ms is None else base + wanted.expires_ms,
        recurrence=series.to_text(),
        state=State.PENDING,
        lacks_handler=False,
    )
    return same_run(job, after)


def changed_dead(job: Job, wanted: Definition) -> Job:
    before = Definition.of(job).series
    kept = ("runs", "run_at", "next_at", "nominal_at", "expires_ms", "failures", "succeeded_at")
    state = {name: getattr(before, name) for name in kept}
    text = replace(wanted.series, **state).to_text()
    _, _, target, handler, retry, *_ = wanted
    return replace(job, payload=wanted.payload, target=target, handler=handler, retry=retry, recurrence=text)


def at_end(job: Job, wanted: Definition) -> Job:
    before = Definition.of(job)
    series = before.series
    then = None if before.is_like(wanted) else wanted._replace(series=_rule(wanted.series)).to_text()
    return replace(job, recurrence=replace(series, then=then).to_text())


def then_of(job: Job) -> Definition | None:
    if job.recurrence is None or '"then":' not in job.recurrence:
        return None
    text = Recurrence.from_text(job.recurrence).then
    return None if text is None else Definition.from_text(text)


def gone_on(job: Job, wanted: Definition, now: int) -> Job | None:
    series = Recurrence.from_text(job.recurrence or "")
    runs = series.runs + 1
    after = replace(series, runs=runs, max_runs=None, until=None, run_at=None, next_at=None, nominal_at=None, then=None)
    if wanted.series.max_runs is not None and runs >= wanted.series.max_runs:
        return None
    with suppress(InvalidRecurrenceError):
        due_at = after.next(job.key, max(job.due_at, now))
        if due_at is not None:
            text = after.to_text()
            return replace(job, due_at=due_at, attempt=0, state=State.PENDING, recurrence=text, sent_as=None)
    return None


def without_then(text: str | None) -> str | None:
    if text is None or '"then":' not in text:
        return text
    return replace(Recurrence.from_text(text), then=None).to_text()


def moved(job: Job, due_at: int, *, is_put_off: bool) -> str | None:
    """
    Return the recurrence of *job* when its run is moved to *due_at*.

    The run keeps its nominal instant, unless its new due time is a later instant of the series. If the run has had no
    attempt and is moved to an earlier instant, it counts as an additional run, and the scheduled run also takes place.
    If *is_put_off* is True, the series continues from *due_at*.
    """
    if not is_series(job):
        return job.recurrence
    series = Recurrence.from_text(job.recurrence or "")
    nominal, wanted = series.named(job.key, job.due_at), due_at - series.shift_ms(job.key)
    if wanted < nominal and not was_tried(job):
        nominal = due_at
    with suppress(RecurrenceError, MissingExtraError):
        if wanted >= nominal and series.nominal(wanted - 1) == wanted:
            nominal = wanted
    if is_put_off:
        series = replace(series, next_at=None, run_at=None)
    return replace(series, nominal_at=None if nominal == wanted else nominal).to_text()


def runs_besides(job: Job) -> str | None:
    """
    Return the recurrence of *job* for an additional run before the scheduled run at `job.due_at`.

    After the additional run, the series continues at `job.due_at`. The recurrence stays unchanged if the pending run is
    a retry, was postponed, or is itself an additional run.
    """
    if not is_series(job):
        return job.recurrence
    series = Recurrence.from_text(job.recurrence or "")
    if series.next_at is not None or series.is_postponed(job.due_at):
        return job.recurrence
    return replace(series, next_at=job.due_at, nominal_at=None).to_text()


def length_of(text: str) -> int | None:
    found = _LENGTH.search(text)
    return None if found is None else int(found[1])


def of_next_life(text: str) -> str:
    return _LENGTH.sub("", text)


def _rule(series: Recurrence) -> Recurrence:
    after = replace(series, runs=0, run_at=None, next_at=None, nominal_at=None, expires_ms=None, then=None)
    return replace(after, failures=0, succeeded_at=None)
