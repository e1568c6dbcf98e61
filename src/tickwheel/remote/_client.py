"""
The operations on jobs, over HTTP. Requests are validated here first, so an invalid value costs no request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NoReturn, assert_never

from tickwheel.errors import TickwheelError
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import BulkAnswer, BulkFields, BulkProgress, bulk_request
from tickwheel.jobs.change import ChangeFields, change_fields
from tickwheel.jobs.declaration import Declaration, Declared
from tickwheel.jobs.errors import InvalidJobError, StoreError, UnsupportedError
from tickwheel.jobs.explanation import Explanation, unreachable
from tickwheel.jobs.incidents import LETTERS_MAX, Incidents
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Page, Pause, RetryPolicy
from tickwheel.jobs.requests import PAGE_MAX, STEPS_MAX, ListFields, SetRequest, due_at, flag, job_query, set_write
from tickwheel.jobs.verbs import CancelJobs, MoveJobs, PauseJobs, ReplayJobs, ResumeJobs, SetJobs, Verb
from tickwheel.observe.tracing import TRACE
from tickwheel.remote import _wire
from tickwheel.remote._errors import error_of
from tickwheel.remote.transport import Transport
from tickwheel.stores import Node, Shard
from tickwheel.typing import Duration, Instant

__all__ = ["RemoteClient"]

_ITEMS_MAX: Final = 10_000
_BYTES_MAX: Final = 8 << 20
"""Maximum size of a request: half of a service's default limit."""
_NOT_FOUND: Final = 404
_ANY: Final = RetryPolicy()
"""A placeholder for the retry policy that the service chooses."""


class RemoteClient:
    """
    Reads and changes the jobs of one service. *policy* returns the retry policy of a handler registered on this client.
    """

    def __init__(self, transport: Transport, policy: Callable[[str], RetryPolicy | None]) -> None:
        self._transport, self._policy = transport, policy

    # ---- writes ----------------------------------------------------------------------------------------------------

    is_stale = False
    """Always False: the service has the clock, so no clock here can be out of date."""

    def refresh(self) -> None: ...

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def set(self, request: SetRequest, *, waits: bool = False) -> Future[Answer]:
        del waits  # the transport's loop sends the writes in any case
        body = _wire.to_json(*self._asked(request))
        headers = _condition(checks.check_generation(request.if_generation))
        return self._transport.submit(self._write("PUT", _wire.address(request.key), body, headers))

    def submit(self, verb: Verb, *, waits: bool = False) -> Future[list[Answer]]:
        del waits
        match verb:
            case SetJobs():
                items = [self._item(request) for request in verb.requests]
                return self._transport.submit(self._batch(items, refuse_all=True))
            case MoveJobs():
                return self._move(verb)
            case CancelJobs():
                action, batched = ("?running=true", {"running": True}) if flag("running", verb.running) else ("", None)
                return self._each(verb, method="DELETE", action=action, batched=batched)
            case ReplayJobs():
                return self._replay(verb)
            case PauseJobs():
                _refuse_name(verb.by)
                return self._each(verb, method="POST", action=":pause", body={"note": verb.note})
            case ResumeJobs():
                return self._each(verb, method="POST", action=":resume")
            case _:
                assert_never(verb)

    def pause_scope(self, scope: str, note: str, by: str | None) -> Pause:
        _refuse_name(by)
        return _wire.pause_of(self._post("/v1/scopes:pause", scope=checks.check_scope(scope), note=note))

    def resume_scope(self, scope: str, by: str | None) -> bool:
        _refuse_name(by)
        was_paused: bool = self._post("/v1/scopes:resume", scope=checks.check_scope(scope))["was_paused"]
        return was_paused

    def scopes(self) -> Sequence[Pause]:
        return [_wire.pause_of(each) for each in self._read("/v1/scopes", {})["pauses"]]

    def within(self, connection: object) -> NoReturn:
        what = f"a transaction of {type(connection).__name__} does not reach the service"
        raise UnsupportedError(what, "leave conn out, or use a scheduler on the store itself")

    def _each(
        self,
        verb: MoveJobs | CancelJobs | ReplayJobs | PauseJobs | ResumeJobs,
        *,
        method: str,
        action: str = "",
        body: dict[str, Any] | None = None,
        batched: dict[str, Any] | None = None,
    ) -> Future[list[Answer]]:
        checked, generation = checks.check_keys(verb.keys), checks.check_generation(verb.if_generation)
        if len(checked) == 1:
            data = None if body is None else _wire.to_json(body)
            path = _wire.address(checked[0], action)
            return self._transport.submit(self._write_one(method, path, data, _condition(generation)))
        fields = (batched or body or {}) | {"do": verb.name, "if_generation": generation}
        return self._transport.submit(self._batch([_wire.to_json(fields | {"key": key}) for key in checked]))

    def _move(self, verb: MoveJobs) -> Future[list[Answer]]:
        if verb.runs_now:
            return self._each(verb, method="POST", action=":run")
        delay, at = verb.when
        due_at(delay, at, self.now_ms())
        if delay is None:
            return self._each(verb, method="PATCH", body={"at": _wire.epoch_seconds("at", at or 0)})
        return self._each(verb, method="PATCH", body={"delay": _wire.seconds("delay", delay)})

    def _replay(self, verb: ReplayJobs) -> Future[list[Answer]]:
        keys, generation = checks.check_keys(verb.keys), checks.check_generation(verb.if_generation)
        delays = verb.delays(len(keys))
        if not any(delays):
            return self._each(ReplayJobs(keys, generation), method="POST", action=":replay")
        fields = {"do": verb.name, "if_generation": generation}
        pairs = zip(keys, delays, strict=True)
        return self._transport.submit(
            self._batch([_wire.to_json(fields | {"key": key, "delay": delay}) for key, delay in pairs])
        )

    def _asked(self, request: SetRequest) -> tuple[dict[str, Any], bytes]:
        if not isinstance(request.target, str):
            raise InvalidJobError("target", request.target, "pass the target's name")
        if request.target in {"handler", "pull"} and not request.handler:
            raise InvalidJobError("handler", request.handler, "name the handler that is to run the job")
        checks.check_handler(request.handler or "")
        job = set_write(request, self.now_ms(), self._retry_of).job
        body = _wire.set_body(request)
        if job.retry is not _ANY:
            body["retry"] = job.retry.in_seconds()
        trace = request.trace or TRACE.get()
        return (body if trace is None else body | {"trace": trace}), job.payload

    def _retry_of(self, target: str, handler: str | None) -> RetryPolicy:
        return (self._policy(handler or "") if target == "pull" else None) or _ANY

    def _item(self, request: SetRequest) -> bytes:
        body, payload = self._asked(request)
        body |= {"do": "set", "key": request.key, "if_generation": request.if_generation}
        return _wire.to_json(body, payload)

    async def _write(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        status, document = await self._transport.ask(method, path, body, headers)
        return self._answer_of({"problem": document} if status >= 400 else document)  # noqa: PLR2004  the first status of errors

    async def _write_one(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> list[Answer]:
        return [await self._write(method, path, body, headers)]

    async def _batch(self, items: Sequence[bytes], *, refuse_all: bool = False) -> list[Answer]:
        answers: list[Answer] = []
        options = b'"with_jobs":true,"refuse_all":%b' % (b"true" if refuse_all else b"false")
        for chunk in _chunks(items):
            body = b'{%b,"items":[%b]}' % (options, b",".join(chunk))
            try:
                document = await self._transport.document("POST", "/v1/jobs:batch", body)
            except TickwheelError as error:
                if not answers:
                    raise
                so_far = (
                    f"{self._transport.url}: {len(answers)} of {len(items)} writes are done, and the next batch failed"
                )
                what, is_transient = f"{so_far} ({error})", isinstance(error, StoreError) and error.is_transient
                raise StoreError(what, "do them again", is_transient=is_transient, is_unknown=True) from error
            answers += map(self._answer_of, document["results"])
        return answers

    def _answer_of(self, result: dict[str, Any]) -> Answer:
        problem = result.get("problem")
        if problem is None:
            return _wire.answer_of(result)
        refusal = _wire.refusal_of(problem)
        if refusal is None:
            raise error_of(problem, self._transport.url)
        return refusal

    # ---- reads -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Job | None:
        return self._transport.submit(self._get(_wire.address(checks.check_key(key)))).result()

    async def _get(self, path: str) -> Job | None:
        document = await self._get_document(path)
        return None if document is None else _wire.job_of(document)

    async def _get_document(self, path: str) -> Any:
        status, document = await self._transport.ask("GET", path)
        if status == _NOT_FOUND and _wire.refusal_of(document) is not None:
            return None
        if status >= 400:  # noqa: PLR2004  the first status of errors
            raise error_of(document, self._transport.url)
        return document

    def explain(self, key: str) -> Explanation | None:
        path = _wire.address(checks.check_key(key), ":explain")
        try:
            document = self._transport.submit(self._get_document(path)).result()
        except StoreError as error:
            if not error.is_transient:
                raise
            return unreachable(key, error)
        return None if document is None else _wire.explanation_of(document)

    def history(self, key: str, before: int | None, limit: int) -> Sequence[HistoryRecord]:
        params = {"limit": checks.check_count("limit", limit, PAGE_MAX)}
        if before is not None:
            params["before"] = checks.check_count("before", before, checks.NUMBER_MAX)
        document = self._read(_wire.address(checks.check_key(key), ":history"), params)
        return [_wire.record_of(record) for record in document["records"]]

    def page(self, fields: ListFields) -> Page:
        query = job_query(fields, self.now_ms())
        params: dict[str, Any] = {"limit": query.limit}
        if query.prefix:
            params["prefix"] = str.__str__(query.prefix)
        for name in ("state", "handler", "target", "contains", "error", "field", "manifest", "cursor"):
            value = getattr(query, name)
            if value is not None:
                params[name] = str.__str__(value)  # `str` of an enumeration shows its name
        if (payload := fields.get("payload")) is not None:
            params["payload"] = str.__str__(payload)
        for name in ("recurring", "paused"):
            if getattr(query, name):
                params[name] = "true"
        instants: dict[str, Instant | None] = {
            "due_from": fields.get("due_from"),
            "due_until": fields.get("due_until"),
            "not_succeeded_since": fields.get("not_succeeded_since"),
        }
        for name, at in instants.items():
            if at is not None:
                params[name] = repr(checks.epoch_seconds(name, at))
        document = self._read("/v1/jobs", params)
        return Page(tuple(map(_wire.job_of, document["jobs"])), document["cursor"])

    def bulk(self, verb: str, prefix: str, fields: BulkFields, on_progress: BulkProgress | None) -> BulkAnswer:
        _refuse_name(fields.get("by"))
        request = bulk_request(verb, prefix, fields, self.now_ms())
        body = _wire.bulk_body(verb, prefix, fields)
        left, sofar = request.limit, None
        while True:
            size = _ITEMS_MAX if left is None else min(left, _ITEMS_MAX)
            answer = _wire.bulk_of(self._post("/v1/jobs:bulk", **body, limit=size), sofar)
            if on_progress is not None:
                on_progress(answer)
            left = None if request.limit is None else request.limit - answer.matched
            if answer.cursor is None or left == 0:
                return answer
            body["cursor"], sofar = answer.cursor, answer

    def change(self, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
        path = _wire.address(checks.check_key(key), ":change")
        body = _wire.change_body(change_fields(fields), self.now_ms())
        condition = _condition(checks.check_generation(if_generation))
        return self._transport.submit(self._write("POST", path, body, condition)).result()

    def declare(self, asked: Declaration) -> Declared:
        items = [self._declared(schedule) for schedule in asked.schedules]
        options = _wire.to_json(asked.options())[1:-1]
        body = b'{%b,"jobs":[%b]}' % (options, b",".join(items))
        path = _wire.manifest_address(asked.manifest)
        return _wire.declared_of(self._transport.submit(self._transport.document("PUT", path, body)).result())

    def _declared(self, schedule: SetRequest) -> bytes:
        body, payload = self._asked(schedule)
        return _wire.to_json(body | {"key": schedule.key}, payload)

    def upcoming(self, due_from: Instant | None, due_until: Instant | None, limit: int) -> Sequence[Job]:
        job_query({"due_from": due_from, "due_until": due_until, "limit": limit}, self.now_ms())
        given = (("due_from", due_from), ("due_until", due_until))
        params: dict[str, Any] = {name: repr(checks.epoch_seconds(name, at)) for name, at in given if at is not None}
        document = self._read("/v1/jobs", {"order": "due", "limit": limit, **params})
        return [_wire.job_of(job) for job in document["jobs"]]

    def latest_dead(self, limit: int, prefix: str) -> Sequence[Job]:
        limit, prefix = checks.check_count("limit", limit, PAGE_MAX), checks.check_text("prefix", prefix, 512)
        document = self._read("/v1/jobs", {"order": "latest", "limit": limit, **({"prefix": prefix} if prefix else {})})
        return [_wire.job_of(job) for job in document["jobs"]]

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        checks.check_count("steps", steps, STEPS_MAX)
        checks.at_ms(since, self.now_ms(), "since")
        checks.span_ms("step", step)
        params = {
            "since": repr(checks.epoch_seconds("since", since)),
            "step": repr(checks.seconds("step", step)),
            "steps": steps,
        }
        counts: list[int] = self._read("/v1/due", params)["counts"]
        return counts

    def incidents(self, search: str, prefix: str) -> Incidents:
        params: dict[str, Any] = {"keys": LETTERS_MAX, "search": search, "prefix": prefix}
        return _wire.incidents_of(self._read("/v1/incidents", {name: value for name, value in params.items() if value}))

    def acts(self, since: Instant, until: Instant | None, limit: int) -> Sequence[HistoryRecord]:
        params = {**self._span(since, until), "limit": limit}
        return [_wire.record_of(each) for each in self._read("/v1/acts", params)["acts"]]

    def minutes(self, since: Instant, until: Instant | None) -> Sequence[Minute]:
        return [_wire.minute_of(each) for each in self._read("/v1/minutes", self._span(since, until))["minutes"]]

    def _span(self, since: Instant, until: Instant | None) -> dict[str, Any]:
        checks.at_ms(since, self.now_ms(), "since")
        given = (("since", since), ("until", until))
        return {name: repr(checks.epoch_seconds(name, at)) for name, at in given if at is not None}

    def shards(self) -> Sequence[Shard]:
        return [
            Shard(each["shard"], each["owner"], each["epoch"], each["until"] and _wire.ms(each["until"]))
            for each in self._read("/v1/shards", {})["shards"]
        ]

    def nodes(self) -> Sequence[Node]:
        return [
            Node(
                each["owner"],
                each["until"] and _wire.ms(each["until"]),
                each["heard_at"] and _wire.ms(each["heard_at"]),
                _wire.stats_of(each["figures"]),
            )
            for each in self._read("/v1/fleet", {})["nodes"]
        ]

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = _wire.stats_of(self._read("/v1/stats", {}))
        return stats

    def _post(self, path: str, **fields: Any) -> Any:
        return self._transport.submit(self._transport.document("POST", path, _wire.to_json(fields))).result()

    def _read(self, path: str, params: dict[str, Any]) -> Any:
        return self._transport.submit(self._transport.document("GET", path, params=params)).result()


def _refuse_name(by: str | None) -> None:
    if by is not None:
        what = f"by={by!r} was passed to a service"
        raise UnsupportedError(what, "leave it out: the service notes whose token it is")


def _condition(generation: int | None) -> dict[str, str]:
    if generation is None:
        return {}
    return {"if-match": f'"{generation}"'} if generation else {"if-none-match": "*"}


def _chunks(items: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    start = size = 0
    for number, item in enumerate(items):
        if number - start == _ITEMS_MAX or (size + len(item) > _BYTES_MAX and number > start):
            yield items[start:number]
            start, size = number, 0
        size += len(item) + 1
    if start < len(items):
        yield items[start:]
