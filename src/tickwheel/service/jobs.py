from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from tickwheel.jobs.checks import NUMBER_MAX
from tickwheel.scheduler import AsyncScheduler, HistoryRecord, Page
from tickwheel.service.bodies import FIELD_PATTERN, MoveBody, PauseBody, SetBody
from tickwheel.service.change_body import ChangeBody
from tickwheel.service.documents import Moment, PageDocument, explanation_document, instant, job_document
from tickwheel.service.figures import Figures
from tickwheel.service.guard import caller
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import job_key, query, read_body, to_count, to_flag, to_instant, wanted_generation
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.refusals import check_handler, check_interval, check_set
from tickwheel.service.replies import answer_reply, document_reply, job_reply
from tickwheel.service.strict_json import decoded
from tickwheel.service.token_scope import allows_prefixed_tokens, check_all_keys, check_key, is_bounded, narrowed

__all__ = [
    "CANCEL_FIELDS",
    "HISTORY_FIELDS",
    "LIST_FIELDS",
    "PREFIX",
    "HistoryDocument",
    "Jobs",
    "RecordDocument",
    "record_document",
]

PREFIX: Final = b"/v1/jobs/"
"""Path prefix before the job key."""
_INSTANT: Final = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}]}
_TEXT: Final = {"type": "string", "pattern": "^[^\\u0000]*$"}
LIST_FIELDS: Final[dict[str, Any]] = {
    "prefix": {**_TEXT, "maxLength": 512, "description": "Keys that begin with this."},
    "state": {"enum": ["pending", "running", "dead"]},
    "handler": {**_TEXT, "maxLength": 2048, "description": "Jobs of this handler or address."},
    "target": {**_TEXT, "minLength": 1, "maxLength": 512, "description": "Jobs of this target."},
    "contains": {**_TEXT, "minLength": 1, "maxLength": 512, "description": "Keys that contain this."},
    "error": {**_TEXT, "minLength": 1, "maxLength": 512, "description": "Jobs whose last error contains this."},
    "payload": {**_TEXT, "minLength": 1, "maxLength": 512, "description": "Jobs whose payload contains this."},
    "field": {
        **_TEXT,
        "pattern": FIELD_PATTERN,
        "minLength": 2,
        "maxLength": 512,
        "description": "Jobs whose JSON payload has this field, as `number=17` or `customer.city=Bern`.",
    },
    "recurring": {"type": "boolean", "default": False, "description": "Only recurring jobs."},
    "paused": {"type": "boolean", "default": False, "description": "Only pending jobs that are paused."},
    "manifest": {**_TEXT, "minLength": 1, "maxLength": 255, "description": "Only jobs that belong to this manifest."},
    "due_from": {**_INSTANT, "description": "Jobs due from this instant on."},
    "due_until": {**_INSTANT, "description": "Jobs due before this instant."},
    "not_succeeded_since": {**_INSTANT, "description": "Recurring jobs of which no run has succeeded since then."},
    "order": {
        "enum": ["key", "due", "latest"],
        "description": "By key; or pending jobs by instant; or dead letters, the latest first. `due` goes with "
        "due_from, due_until and limit alone, `latest` with prefix, state=dead and limit.",
    },
    "cursor": {**_TEXT, "minLength": 1, "maxLength": 512, "description": "Of the page before."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
}
HISTORY_FIELDS: Final[dict[str, Any]] = {
    "before": {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX, "description": "Records with lower numbers."},
    "limit": LIST_FIELDS["limit"],
}
CANCEL_FIELDS: Final[dict[str, Any]] = {
    "running": {"type": "boolean", "default": False, "description": "Ask the job to stop if it runs."}
}
_ORDERS: Final = {"key": set[str](), "due": {"due_from", "due_until", "limit"}, "latest": {"prefix", "limit"}}
_SET: Final = msgspec.json.Decoder(SetBody)
_MOVE: Final = msgspec.json.Decoder(MoveBody)
_CHANGE: Final = msgspec.json.Decoder(ChangeBody)
_PAUSE: Final = msgspec.json.Decoder(PauseBody)


class RecordDocument(Struct, frozen=True):
    """
    One record in the past of a key: an attempt that ended, or an act (a change that a caller made).

    An attempt has the outcome succeeded, failed (it will be retried), died, snoozed, expired, stopped, or cut_off (its
    process ended first). An act has `attempt` 0. Its outcome is created, replaced, changed, restarted, moved,
    cancelled, replayed, paused, resumed, or stopping (a running job was asked to stop).

    `at` is the time of the record. `by` is the node that ran the attempt, or the process or token that requested the
    act. `lateness_ms` is null if the attempt never began; `took_ms` is also null if unknown. `note` is the last note of
    the handler, such as a short result. `nominal_at` is the instant that the rule of a recurring job gives for the run;
    all attempts of the run share it. `was_due_at` is the due time before an act that changed it. `bulk` is the bulk
    change that the act is part of.
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
    nominal_at: Moment | None
    was_due_at: Moment | None
    bulk: str | None


class HistoryDocument(Struct, frozen=True):
    """
    The past of one key, newest first. To get earlier records, pass the `number` of the last record as `before`.
    """

    records: list[RecordDocument]


class Jobs:
    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, figures: Figures) -> None:
        self._scheduler = scheduler
        self._figures = figures
        self._options = options

    @allows_prefixed_tokens
    async def set(self, call: Request) -> Reply:
        """
        Set the job of this key, or replace it.
        """
        key = _key(call)
        body = await decoded(await read_body(call, self._options.body_bytes_max), _SET)
        wanted = wanted_generation(call)  # preconditions are evaluated only after the request itself has been validated
        check_set(body, self._scheduler, self._options.every_min_s)
        if self._options.pending_max is not None:
            await self._figures.check_room(self._options.pending_max)
        answer = await self._scheduler.set(key, if_generation=wanted, **body.fields())
        return answer_reply(key, answer, wanted)

    @allows_prefixed_tokens
    async def move(self, call: Request) -> Reply:
        """
        Change the due time of a pending job.
        """
        key = _key(call)
        body = await decoded(await read_body(call, self._options.body_bytes_max), _MOVE)
        wanted = wanted_generation(call)
        answer = await self._scheduler.move(key, if_generation=wanted, **body.fields())
        return answer_reply(key, answer, wanted)

    @allows_prefixed_tokens
    async def cancel(self, call: Request) -> Reply:
        """
        Cancel a pending job, or remove a dead job; with `running=true`, ask a running job to stop.
        """
        key, fields = _key(call), query(call, CANCEL_FIELDS)
        wanted = wanted_generation(call)
        running = to_flag("running", fields["running"]) if "running" in fields else False
        return answer_reply(key, await self._scheduler.cancel(key, running=running, if_generation=wanted), wanted)

    @allows_prefixed_tokens
    async def get(self, call: Request) -> Reply:
        """
        Return the job of this key.
        """
        key = _key(call)
        job = await self._scheduler.get(key)
        if job is None:
            raise ProblemError("job_not_found", f"no job has the key {show(key)}", value=key)
        return job_reply(job)

    @allows_prefixed_tokens
    async def history(self, call: Request) -> Reply:
        """
        Return the past of the jobs of this key, newest first, even if there is no job with this key any more.
        """
        key, fields = _key(call, b":history"), query(call, HISTORY_FIELDS)
        limit = to_count("limit", fields.get("limit", "100"), self._options.page_max)
        before = to_count("before", fields["before"], NUMBER_MAX) if "before" in fields else None
        records = await self._scheduler.history(key, before=before, limit=limit)
        if is_bounded(call):  # hide the records of a scope, node or bulk change that is named like a key
            records = [each for each in records if each.generation]
        return document_reply(HistoryDocument([record_document(each) for each in records]))

    @allows_prefixed_tokens
    async def explain(self, call: Request) -> Reply:
        """
        Explain why the job of this key has not run yet.

        The node that fires the job has the most information. Any other node uses the store and the firing node's last
        report. If the store does not respond, the reason is `store_unreachable`.
        """
        key = _key(call, b":explain")
        found = await self._scheduler.explain(key)
        if found is None:
            raise ProblemError("job_not_found", f"no job has the key {show(key)}", value=key)
        return document_reply(explanation_document(found))

    @allows_prefixed_tokens
    async def run_now(self, call: Request) -> Reply:
        """
        Make a pending job due now.
        """
        key, wanted = _key(call, b":run"), wanted_generation(call)
        return answer_reply(key, await self._scheduler.run_now(key, if_generation=wanted), wanted)

    @allows_prefixed_tokens
    async def skip(self, call: Request) -> Reply:
        """
        Skip the next run of a recurring job. If it was the last run, the series ends.
        """
        key, wanted = _key(call, b":skip"), wanted_generation(call)
        return answer_reply(key, await self._scheduler.skip(key, if_generation=wanted), wanted)

    @allows_prefixed_tokens
    async def change(self, call: Request) -> Reply:
        """
        Change some fields of a pending job.

        All other fields, the number of remaining runs and a pause stay unchanged. The due time and later runs change
        only with `every`, `time`, `cron`, `day_match`, `tz`, `dst_gap`, `dst_overlap` or `exclude`.
        """
        key = _key(call, b":change")
        body = await decoded(await read_body(call, self._options.body_bytes_max), _CHANGE)
        wanted, fields = wanted_generation(call), body.fields()
        check_interval(fields.get("every"), fields.get("cron"), self._options.every_min_s)
        if named := fields.keys() & {"target", "handler"}:
            job = None if len(named) > 1 else await self._scheduler.get(key)  # the job has the other field
            target, handler = (fields.get(name, getattr(job, name, None)) for name in ("target", "handler"))
            check_handler(target, handler, self._scheduler)
        answer = await self._scheduler.change(key, if_generation=wanted, **fields)
        return answer_reply(key, answer, wanted)

    @allows_prefixed_tokens
    async def pause(self, call: Request) -> Reply:
        """
        Pause a pending job. It does not fire until it is resumed.

        The recorded author of the pause is the name of the token: its comment in the file of tokens.
        """
        key = _key(call, b":pause")
        body = await decoded(await read_body(call, self._options.body_bytes_max), _PAUSE)
        wanted = wanted_generation(call)
        by = caller(call, self._options)
        answer = await self._scheduler.pause(key, note=body.note, by=by, if_generation=wanted)
        return answer_reply(key, answer, wanted)

    @allows_prefixed_tokens
    async def resume(self, call: Request) -> Reply:
        """
        End the pause of a job. Its due time is the same as before the pause.
        """
        key, wanted = _key(call, b":resume"), wanted_generation(call)
        return answer_reply(key, await self._scheduler.resume(key, if_generation=wanted), wanted)

    @allows_prefixed_tokens
    async def replay(self, call: Request) -> Reply:
        """
        Make a dead job pending again, due now, with its full number of attempts.
        """
        key, wanted = _key(call, b":replay"), wanted_generation(call)
        return answer_reply(key, await self._scheduler.replay(key, if_generation=wanted), wanted)

    @allows_prefixed_tokens
    async def list(self, call: Request) -> Reply:
        """
        Return one page of the jobs that match the query.

        One request examines up to 10,000 keys (2,000 on Redis). So a page may have few jobs or none and still have a
        `cursor`. Continue until the cursor is null.
        """
        fields = query(call, LIST_FIELDS)
        arguments = _list_arguments(fields, self._options.page_max)
        if fields.get("order") == "due":
            check_all_keys(call)
        arguments["prefix"] = narrowed(call, arguments.get("prefix", ""))
        match _order(arguments):
            case "due":
                page = Page(tuple(await self._scheduler.upcoming(**arguments)))
            case "latest":
                page = Page(tuple(await self._scheduler.latest_dead(**arguments)))
            case _:
                page = await self._scheduler.list(**arguments)
        return document_reply(PageDocument([job_document(job) for job in page.jobs], page.cursor))


def _list_arguments(fields: dict[str, str], page_max: int) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(fields)
    for name in ("due_from", "due_until", "not_succeeded_since"):
        if name in fields:
            arguments[name] = to_instant(name, fields[name])
    for name in ("recurring", "paused"):
        if name in fields:
            arguments[name] = to_flag(name, fields[name])
    if "limit" in fields:
        arguments["limit"] = to_count("limit", fields["limit"], page_max)
    return arguments


def _order(arguments: dict[str, Any]) -> str:
    """
    Take `order` out of *arguments*, and return its value. Refuse filters that this order does not allow.
    """
    order = str(arguments.pop("order", "key"))
    if order not in _ORDERS:
        raise ProblemError("invalid_value", f"order is {show(order)}: give one of {', '.join(_ORDERS)}", value=order)
    if not arguments["prefix"]:
        del arguments["prefix"]
    if order == "key":
        return order
    if order == "latest" and arguments.get("state", "dead") == "dead":
        arguments.pop("state", None)
    others = arguments.keys() - _ORDERS[order]
    if others:
        remedy = f"leave out {', '.join(sorted(others))}, or list in the order of the keys"
        what = "pending jobs by their instant" if order == "due" else "dead letters, the latest first"
        message = f"order is {order!r}, which lists {what}: {remedy}"
        raise ProblemError("invalid_value", message, value=order, remedy=remedy)
    return order


def _key(call: Request, action: bytes = b"") -> str:
    return check_key(call, job_key(call.raw_path[len(PREFIX) :].removesuffix(action)))


def record_document(record: HistoryRecord) -> RecordDocument:
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
        nominal_at=None if record.nominal_at is None else instant(record.nominal_at),
        was_due_at=None if record.was_due_at is None else instant(record.was_due_at),
        bulk=record.bulk,
    )
