from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Raw, Struct
from msgspec.json import Decoder

from tickwheel.jobs.recurring import RUNS_MAX, runs_found, runs_of
from tickwheel.jobs.requests import SetRequest, trial
from tickwheel.scheduler import AsyncScheduler, Job
from tickwheel.service.bodies import CENTURY_S, BackfillBody
from tickwheel.service.documents import BackfillDocument, Moment, PauseDocument, instant, pause_document
from tickwheel.service.figures import Figures
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import job_key, query, read_body, to_count, to_duration, to_instant
from tickwheel.service.jobs import LIST_FIELDS
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import document_reply
from tickwheel.service.rules import Rule
from tickwheel.service.strict_json import decoded
from tickwheel.service.token_scope import allows_prefixed_tokens, check_key, narrowed

__all__ = [
    "COUNT_FIELDS",
    "PREFIX",
    "RULE_FIELDS",
    "SCHEDULES_FIELDS",
    "RunsDocument",
    "ScheduleDocument",
    "Schedules",
    "SchedulesDocument",
]

PREFIX: Final = b"/v1/schedules/"
_COUNT_MAX: Final = 1000
_RUNS_MAX: Final = 10_000
"""Maximum number of runs on a page; each costs about 50 microseconds."""
_PASSES_MAX: Final = 10_000
"""Maximum number of excluded ranges that one request skips in the search for runs."""
_DURATION: Final = [{"type": "number", "maximum": CENTURY_S}, {"type": "string", "maxLength": 101}]
COUNT_FIELDS: Final[dict[str, Any]] = {
    "count": {
        "type": "integer",
        "minimum": 1,
        "maximum": _COUNT_MAX,
        "default": 1,
        "description": "How many runs to show.",
    }
}
SCHEDULES_FIELDS: Final[dict[str, Any]] = {
    **{name: LIST_FIELDS[name] for name in ("prefix", "handler", "manifest", "cursor")},
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 100},
    **COUNT_FIELDS,
}
RULE_FIELDS: Final[dict[str, Any]] = {
    "cron": {
        "type": "string",
        "maxLength": 1000,
        "description": "Five or six fields, `@daily`, `@every 90s`; or give `every`.",
    },
    "every": {"anyOf": _DURATION, "description": "Seconds, or text such as `90s` or `PT30M`; or give `cron`."},
    "time": {
        "type": "string",
        "maxLength": 8,
        "description": "With `every` of days, weeks or months: the time of each run, such as `02:00`.",
    },
    "day_match": {
        "type": "string",
        "enum": ["either", "both"],
        "description": "Which of day and weekday has to match; by default `either`.",
    },
    "tz": {
        "type": "string",
        "maxLength": 100,
        "default": "UTC",
        "description": "The zone that `cron`, `time` and `exclude` are read in.",
    },
    "dst_gap": {"type": "string", "enum": ["end", "skip"], "description": "For times that the clock skips."},
    "dst_overlap": {
        "type": "string",
        "enum": ["first", "second", "both"],
        "description": "For times that the clock shows twice.",
    },
    "at": {"anyOf": LIST_FIELDS["due_from"]["anyOf"], "description": "Where to start; now, if it is not given."},
    "exclude": {
        "type": "string",
        "maxLength": 1000,
        "description": "Days and cron lines to leave out, with `;` between.",
    },
    "until": {"anyOf": LIST_FIELDS["due_from"]["anyOf"], "description": "After this instant no run is due."},
    "max_runs": {"type": "integer", "minimum": 1, "maximum": RUNS_MAX, "description": "How many runs there are."},
    "jitter": {"anyOf": _DURATION, "default": 0, "description": "Seconds, or text such as `90s`."},
    "key": {"type": "string", "maxLength": 512, "description": "Whose share of the jitter to show."},
    **COUNT_FIELDS,
}
_DURATIONS: Final = ("every", "jitter")
_BACKFILL: Final = Decoder(BackfillBody)


class ScheduleDocument(Struct, frozen=True):
    """
    A recurring job: its stored rule, and its next runs.

    There are fewer runs than requested if the series ends, or if the search stops because of many excluded instants.
    """

    key: str
    generation: int
    state: Literal["pending", "running", "dead"]
    rule: Rule
    runs: list[Moment]
    target: str
    handler: str
    pause: PauseDocument | None = None
    manifest: str | None = None


class SchedulesDocument(Struct, frozen=True):
    """
    One page of recurring jobs, in the order of their keys. Pass `cursor` to get the next page; it is null on the last.

    A page has at most 10,000 runs, so with a high `count` it has fewer jobs than `limit`.
    """

    schedules: list[ScheduleDocument]
    cursor: str | None


class RunsDocument(Struct, frozen=True):
    """
    A rule in its stored form, and its runs. There are fewer runs than requested if the series ends.
    """

    rule: Rule
    runs: list[Moment]


class Schedules:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._options = options

    @allows_prefixed_tokens
    async def list(self, call: Request) -> Reply:
        """
        Return one page of the recurring jobs, each with its next runs.
        """
        fields: dict[str, Any] = dict(query(call, SCHEDULES_FIELDS))
        count = _count(fields)
        limit = min(to_count("limit", fields.pop("limit", "100"), 100), _RUNS_MAX // count)
        fields["prefix"] = narrowed(call, fields.get("prefix", ""))
        page = await self._scheduler.list(**fields, recurring=True, limit=limit)
        schedules = await asyncio.to_thread(_schedules, page.jobs, count)
        return document_reply(SchedulesDocument(schedules, page.cursor))

    @allows_prefixed_tokens
    async def get(self, call: Request) -> Reply:
        """
        Return the rule and the next runs of the recurring job of this key.
        """
        key = check_key(call, job_key(call.raw_path[len(PREFIX) :]))
        count = _count(query(call, COUNT_FIELDS))
        (schedule,) = await asyncio.to_thread(_schedules, [await self._recurring(key)], count)
        return document_reply(schedule)

    @allows_prefixed_tokens
    async def backfill(self, call: Request) -> Reply:
        """
        Run the job of this key again for each of its instants in a past range. Each of these runs is a separate job.
        """
        key = check_key(call, job_key(call.raw_path[len(PREFIX) : -len(b":backfill")]))
        body = await decoded(await read_body(call, self._options.body_bytes_max), _BACKFILL)
        await self._recurring(key)
        fields = body.fields()
        if self._options.pending_max is not None and not body.dry_run:
            counted = await self._scheduler.backfill(key, **fields | {"dry_run": True})
            await self._figures.check_room(self._options.pending_max, counted.runs)
        answer = await self._scheduler.backfill(key, **fields)
        next_at = None if answer.next_at is None else instant(round(answer.next_at * 1000))
        return document_reply(BackfillDocument(answer.runs, answer.created, next_at))

    async def _recurring(self, key: str) -> Job:
        job = await self._scheduler.get(key)
        if job is None or job.recurrence is None:
            what = f"no job has the key {show(key)}" if job is None else f"job {show(key)} fires once"
            raise ProblemError("job_not_found", what, value=key)
        return job

    @allows_prefixed_tokens
    async def next(self, call: Request) -> Reply:
        """
        Return the instants of a rule. Nothing is stored.
        """
        fields: dict[str, Any] = dict(query(call, RULE_FIELDS))
        count = _count(fields)
        for name in _DURATIONS:
            if name in fields:
                fields[name] = to_duration(fields[name])
        for name in ("at", "until"):
            if name in fields:
                fields[name] = to_instant(name, fields[name])
        if "max_runs" in fields:
            fields["max_runs"] = to_count("max_runs", fields["max_runs"], RUNS_MAX)
        if "exclude" in fields:
            fields["exclude"] = fields["exclude"].split(";")
        if "every" not in fields and "cron" not in fields:
            raise ProblemError("invalid_value", "there is no rule: give every or cron", remedy="give every or cron")
        request = SetRequest(fields.pop("key", "") or "-", **fields)
        return document_reply(await asyncio.to_thread(_tried, request, count))


def _count(fields: dict[str, Any]) -> int:
    return to_count("count", fields.pop("count", "1"), _COUNT_MAX)


def _tried(request: SetRequest, count: int) -> RunsDocument:
    job = trial(request, int(time.time() * 1000))
    return RunsDocument(Raw((job.recurrence or "").encode()), [instant(run) for run in runs_of(job, count)])


def _schedules(jobs: Sequence[Job], count: int) -> list[ScheduleDocument]:
    # the limit of excluded ranges is divided equally among the jobs; a job that uses up its share gets fewer runs
    passes = range(count + _PASSES_MAX // max(1, len(jobs)))
    return [_schedule(job, runs_found(job, count, passes)) for job in jobs]


def _schedule(job: Job, runs: Sequence[int]) -> ScheduleDocument:
    return ScheduleDocument(
        key=job.key,
        generation=job.generation,
        state=job.state.value,
        rule=Raw((job.recurrence or "").encode()),
        runs=[instant(run) for run in runs],
        target=job.target,
        handler=job.handler,
        pause=None if job.pause is None else pause_document(job.pause),
        manifest=job.manifest,
    )
