"""
Applies one operation to all jobs that match a filter, in limited commits, with cursors to continue from.

Every write is conditional on the generation that was read. An operation that must not be repeated (move, spread, run,
replay) changes only jobs whose generations are older than the start of the bulk change. A repetition from an earlier
cursor therefore changes no job twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from tickwheel.client.pages import walked
from tickwheel.host.promise import Reply
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import BULK, CHANGES_MAX, BulkAnswer, BulkChange, BulkProgress, BulkRequest
from tickwheel.jobs.model import (
    Actor,
    Answer,
    Cancel,
    HistoryRecord,
    Job,
    Move,
    Outcome,
    Replay,
    Resume,
    SetPause,
    Write,
)
from tickwheel.jobs.recurrence import share_of

if TYPE_CHECKING:
    from tickwheel.client.client import Client

__all__ = ["done_in_bulk"]

_ONCE: Final = ("move", "spread", "run", "replay")
_SUMS: Final = re.compile(r"\w+: (\d+) changed, (\d+) refused")
_CHANGED: Final = {
    Outcome.CANCELLED,
    Outcome.STOPPING,
    Outcome.MOVED,
    Outcome.REPLAYED,
    Outcome.PAUSED,
    Outcome.RESUMED,
}


class _Run(NamedTuple):
    """
    The fields that all cursors of one bulk change share. Generations above *mark* are newer than the bulk change.
    """

    mark: int
    now: int

    def at(self, key: str) -> str:
        return f"{self.mark}.{self.now}/{key}"


def done_in_bulk(client: Client, request: BulkRequest, on_progress: BulkProgress | None) -> BulkAnswer:
    run = _Run(*(request.run or client.begun()))
    mark = run.mark if request.verb in _ONCE else checks.NUMBER_MAX

    def choose(jobs: Sequence[Job]) -> Sequence[Job]:
        return [job for job in jobs if job.generation <= mark and request.chooses(job)]

    name = f"bulk:{run.mark}.{run.now}"

    def change(jobs: Sequence[Job]) -> Reply[list[Answer]] | None:
        if request.is_dry or not jobs:
            return None

        def writes(now: int, actor: Actor | None) -> list[Write]:
            actor = None if actor is None else replace(actor, bulk=name)
            return [_write(request, job, run, now, actor) for job in jobs]

        return client.write("bulk", writes)

    matched = changed = refused = stopping = 0
    changes: list[BulkChange] = []
    answer = BulkAnswer(0, 0, 0, None, run.at(""))
    try:
        for cursor, jobs, answers in walked(client, request.filters, choose, change, request.limit):
            done = sum(each.outcome in _CHANGED for each in answers)
            matched, changed, refused = matched + len(jobs), changed + done, refused + len(answers) - done
            stopping += sum(each.outcome is Outcome.STOPPING for each in answers)
            at = None if cursor is None else run.at(cursor)
            if request.has_changes:
                changes += _changes(jobs, answers)[: CHANGES_MAX - len(changes)]
            answer = BulkAnswer(matched, changed, refused, at, run.at(""), stopping, tuple(changes))
            if on_progress is not None:
                on_progress(answer)
    finally:
        actor = client.actor()
        if changed and actor is not None:
            _note(client, name, request, answer, actor)
    return answer


def _changes(jobs: Sequence[Job], answers: Sequence[Answer]) -> list[BulkChange]:
    return [
        BulkChange(job.key, job.generation if answer.job is None else answer.job.generation, job.due_at)
        for job, answer in zip(jobs, answers, strict=False)  # a dry run has no answers
        if answer.outcome in _CHANGED
    ]


def _note(client: Client, name: str, request: BulkRequest, answer: BulkAnswer, actor: Actor) -> None:
    given = {field: value for field, value in request.filters.items() if value and field != "cursor"}
    # Turn enum members into plain text.
    shown = {field: str(value) if isinstance(value, str) else value for field, value in given.items()}
    chosen = ", ".join(f"{field}={value!r}" for field, value in shown.items())
    changed, refused = answer.changed, answer.refused
    for before in client.store.history(name, None, 1) if request.run else ():
        if before.by == actor.name and (sums := _SUMS.match(before.note or "")):
            changed, refused = changed + int(sums[1]), refused + int(sums[2])
    now, note = client.now_ms(), f"{request.verb}: {changed} changed, {refused} refused; {chosen}"
    record = HistoryRecord(0, now, name, 0, 0, BULK, actor.name, "", request.verb, now, note=note[:200])
    client.store.add_records([record._replace(error=request.words[1] or None)])


def _write(request: BulkRequest, job: Job, run: _Run, now: int, actor: Actor | None) -> Write:
    key, generation = job.key, job.generation
    match request.verb:
        case "cancel":
            return Cancel(key, generation, actor=actor, stops=request.stops)
        case "pause":
            return SetPause(key, *request.words, generation, actor=actor)
        case "resume":
            return Resume(key, generation, actor)
        case "replay":
            return Replay(key, _due_at(request, job, run, now), generation, actor)
        case _:
            keeps_next = request.verb == "run"
            return Move(key, _due_at(request, job, run, now), generation, actor=actor, keeps_next=keeps_next)


def _due_at(request: BulkRequest, job: Job, run: _Run, now: int) -> int:
    if request.shift_ms:
        return min(max(now, job.due_at + request.shift_ms), now + checks.FAR_MS)
    if request.over_ms:
        since = run.now if request.since is None else request.since
        return max(now, since + share_of(job.key, request.over_ms))
    return now
