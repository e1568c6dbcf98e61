"""
Requests of callers, and the resulting writes.

The functions that parse a caller's arguments raise an `InvalidJobError` that names the value and the remedy, an
`InvalidDelayError` for NaN, and a TypeError for a wrong type or an unknown name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from typing import Any, Final, NamedTuple, TypedDict

from tickwheel._core import make_fast
from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import (
    USUAL_RETRY,
    Actor,
    Answer,
    Job,
    JobQuery,
    Outcome,
    RetryPolicy,
    Set,
    SetMode,
    State,
)
from tickwheel.jobs.near import near
from tickwheel.jobs.recurrence import Misfire, Overlap
from tickwheel.jobs.recurring import check_once, first_run, interval_of, no_run
from tickwheel.jobs.retry import check_policy
from tickwheel.jobs.rows import is_identical_but
from tickwheel.jobs.task_call import TaskCall, check_call
from tickwheel.typing import Duration, Instant, MisfireName, ModeName, OverlapName, StateName

__all__ = [
    "PAGE_MAX",
    "STEPS_MAX",
    "TASK_TARGETS",
    "Filter",
    "ListFields",
    "ListRest",
    "SetFields",
    "SetRequest",
    "When",
    "answered",
    "check_manifest",
    "check_names",
    "check_requests",
    "due_at",
    "flag",
    "job_query",
    "other_manifest",
    "set_request",
    "set_write",
    "set_writes",
    "spread",
    "trial",
]

PAGE_MAX = 1_000
STEPS_MAX = 1_000
"""Maximum number of steps of a forecast."""
TASK_TARGETS: Final = ("handler", "pull")
"""The targets whose jobs run tasks: "handler" in a process that opened the store, "pull" in a client of a service."""
_REPLACE: Final = SetMode.REPLACE  # constants, as an enum look-up is slow
_PENDING: Final = State.PENDING
_MANIFEST_BYTES_MAX: Final = 255
_FIELD: Final = re.compile(r"[^=]+=")
_UNESCAPED: Final = re.compile(r"[A-Za-z0-9 _.:@+-]+")


class SetFields(TypedDict, total=False):
    delay: Duration | None
    at: Instant | None
    payload: Any
    target: str
    handler: str | None
    retry: RetryPolicy | None
    expires: Duration | None
    mode: ModeName | SetMode
    max_wait: Duration | None
    every: Duration | None
    time: str | time | None
    cron: str | None
    day_match: str | None
    tz: str
    dst_gap: str | None
    dst_overlap: str | None
    misfire: MisfireName | Misfire
    misfire_grace: Duration | None
    overlap: OverlapName | Overlap | None
    jitter: Duration
    until: Instant | None
    max_runs: int | None
    pause_after: int | None
    exclude: Sequence[str | date]
    trace: str | None
    keep_payload: bool
    manifest: str | None


@make_fast
@dataclass(slots=True)
class SetRequest:
    """
    One job to set: a one-time job with `delay` or `at`, or a recurring job with `every` or `cron`.

    Attributes:
        key: The job's name, unique among live jobs: 1 to 512 bytes of UTF-8.
        call: The call to run, as `cancel_order.of(number=17)`; it replaces `handler` and `payload`.
        delay: Seconds from now, a timedelta, or text such as "90s", "2h30m" or "PT30M"; at most 100 years. For a
            recurring job, the delay before the start. All fields in seconds accept these types. A negative delay counts
            as now.
        at: An aware datetime, ISO 8601 text with an offset, or seconds since the epoch; a past instant counts as now.
        payload: Any JSON value, at most 1 MiB encoded.
        target: The target kind: "handler", "webhook", "log", or one of your own.
        handler: The handler of that kind: the handler's name, or the URL.
        retry: The retry policy; None for the handler's policy or, if the handler has none, the scheduler's.
        expires: Time to live in seconds, counted from the due time. After it, the job no longer fires.
        mode: Effect on a pending job of that key: "replace" it, "keep" it, or choose the "earliest" due time. A
            recurring job continues, with the new rule if the rules differ; "restart" begins a new series in its place.
        max_wait: With "replace": the due time is at most this number of seconds after the first set.
        if_generation: Set only if the live job has this generation; 0: only if there is no live job.
        every: Seconds between the runs of a recurring job, counted from its start; with `time`, days, weeks or months,
            such as "3d", "2 weeks" and "1 month".
        time: With `every`: the time of day of all runs in the zone `tz`, such as "02:00".
        cron: Five or six fields, for a job that recurs by the calendar; or "@daily", "@every 90s" and the like.
        day_match: For a `cron` line that restricts both day fields: "both" must match, or "either", the default.
        tz: The IANA zone of `cron`, `time` and `exclude`, or "local" for this machine's zone.
        dst_gap: Policy for times that the wall clock skips: one run at the "end" of the gap, or "skip" them. None means
            "skip" for a cron line that begins with `*` or has six fields, and "end" for all others.
        dst_overlap: Policy for times that the wall clock shows twice: run the "first" time, the "second" or "both".
            None means "both" for a cron line that begins with `*` or has six fields, and "first" for all others.
        misfire: Policy for missed runs: "once", "all" or "skip".
        misfire_grace: With "skip", a run later than this number of seconds is missed; at least 1. None means 60.
        overlap: Policy for instants that pass during a run, including its retries: "skip" them, run "once" for all of
            them, run later for "all" of them, or, at the first such instant, "cancel" the current run. None means "all"
            if `misfire` is "all"; if not, "skip".
        jitter: Seconds over which the runs of different keys are spread. A key always has the same delay.
        until: The last instant at which a run may be due, not counting the jitter.
        max_runs: The job is removed after this number of runs of the series. Retries and skipped runs do not count.
        pause_after: The job is paused after this number of runs in a row that failed with all retries; None for never.
        exclude: Exclusions from the series: days such as "2026-12-25" and "2026-12-24/2027-01-02", and cron lines such
            as "* * * * SAT,SUN"; at most 366.
        trace: A W3C traceparent; the firing is linked to it.
        keep_payload: True to keep the payload of the pending or running job of that key, if there is one. If False, a
            job that is set without a payload has the payload None.
        manifest: The manifest that the recurring job belongs to, 1 to 255 bytes of UTF-8. `declare` sets it.
    """

    key: str
    call: TaskCall | None = None
    delay: Duration | None = None
    at: Instant | None = None
    payload: Any = None
    target: str = "handler"
    handler: str | None = None
    retry: RetryPolicy | None = None
    expires: Duration | None = None
    mode: ModeName | SetMode = "replace"
    max_wait: Duration | None = None
    if_generation: int | None = None
    every: Duration | None = None
    time: str | time | None = None
    cron: str | None = None
    day_match: str | None = None
    tz: str = "UTC"
    dst_gap: str | None = None
    dst_overlap: str | None = None
    misfire: MisfireName | Misfire = "once"
    misfire_grace: Duration | None = None
    overlap: OverlapName | Overlap | None = None
    jitter: Duration = 0.0
    until: Instant | None = None
    max_runs: int | None = None
    pause_after: int | None = None
    exclude: Sequence[str | date] = ()
    trace: str | None = None
    keep_payload: bool = False
    manifest: str | None = None


class When(NamedTuple):
    delay: Duration | None = None
    at: Instant | None = None


class Filter(TypedDict, total=False):
    """
    The keyword arguments of `list` and `bulk` that select jobs, besides the prefix.

    Attributes:
        state: "pending", "running" or "dead".
        due_from: Due at this instant or later.
        due_until: Due before this instant.
        contains: A substring of the key, matched exactly.
        error: A substring of the last error's text.
        payload: A substring of the payload, matched exactly, in UTF-8; at most 512 bytes.
        field: A field of a JSON payload, as "number=17" or "customer.city=Bern". The value is the text of a string, or
            a number, true, false or null as JSON writes it. A page may then have fewer jobs than its limit, or none,
            and still not be the last.
        recurring: True for recurring jobs only.
        paused: True for paused pending jobs only.
        manifest: Only jobs that belong to this manifest.
    """

    state: StateName | State | None
    due_from: Instant | None
    due_until: Instant | None
    handler: str | None
    target: str | None
    contains: str | None
    error: str | None
    payload: str | None
    field: str | None
    recurring: bool
    paused: bool
    manifest: str | None


class ListRest(Filter, total=False):
    """
    The keyword arguments of `list` besides the prefix: `Filter`, and the arguments of paging.

    Attributes:
        not_succeeded_since: Only recurring jobs that existed at this instant and had no successful run since. A page
            may then have fewer jobs than its limit, or none, and still not be the last.
        cursor: The cursor of the previous page.
        limit: Maximum number of jobs of a page, 1 to 1000.
    """

    not_succeeded_since: Instant | None
    cursor: str | None
    limit: int


class ListFields(ListRest, total=False):
    prefix: str


RetryOf = Callable[[str, str | None], RetryPolicy]
"""Validates a target and handler. Returns the default retry policy of jobs with this target and handler."""


def check_requests(requests: Iterable[SetRequest]) -> list[SetRequest]:
    if isinstance(requests, SetRequest):
        raise InvalidJobError("requests", requests, "pass a list of SetRequest")
    found = list(requests)
    for request in found:
        if not hasattr(request, "handler"):  # items of the service have the same fields
            raise InvalidJobError("request", request, "pass SetRequest(key, task.of(...), delay=...)")
    return [spread(request) for request in found]


def set_request(key: str, call: TaskCall | None, fields: SetFields, if_generation: int | None = None) -> SetRequest:
    try:
        request = SetRequest(key, call, if_generation=if_generation, **fields)
    except TypeError:
        check_names("set", fields, SetFields.__annotations__)
        raise
    return spread(request)


def spread(request: SetRequest) -> SetRequest:
    if isinstance(getattr(request, "key", None), TaskCall):
        raise InvalidJobError(
            "key", request.key, "pass the key first and the call behind it, as in set('order/17', call)"
        )
    if getattr(request, "call", None) is None:  # items of the service have no calls
        return request
    call = check_call(request.call)
    for name in ("handler", "payload"):
        if (value := getattr(request, name)) is not None:
            raise InvalidJobError(name, value, f"the call of {call.handler} says it: leave {name}= out")
    if request.target not in TASK_TARGETS:
        remedy = f"leave it out for {call.handler}, or pass 'pull', as for the workers of a service"
        raise InvalidJobError("target", request.target, remedy)
    if request.keep_payload is True:
        raise InvalidJobError(
            "keep_payload", request.keep_payload, "a call has a payload: use move() for another time alone"
        )
    retry = request.retry or call.retry
    return replace(request, call=None, handler=call.handler, payload=call.payload, retry=retry)


def set_write(request: SetRequest, now: int, retry_of: RetryOf) -> Set:
    return set_writes((request,), now, retry_of)[0]


def set_writes(
    requests: Iterable[SetRequest],
    now: int,
    retry_of: RetryOf,
    trace: str | None = None,
    clock_step: int | None = None,
    *,
    latest: int | None = None,
    is_estimate: bool = False,
    actor: Actor | None = None,
) -> list[Set]:
    """
    Return the writes of *requests*, in order.

    Delays and intervals count from *latest*, the store's highest possible time (None: from *now*). If *is_estimate* is
    True, the store corrects the due times by its clock. *clock_step* is stored only in writes with a relative due time.
    """
    writes: list[Set] = []
    before: SetRequest | None = None
    delay, at, instant = None, None, now
    asked_retry: RetryPolicy | None = None
    for request in requests:
        if before is None or not _has_same_rest(request, before):
            before, rest = request, _rest_of(request, retry_of, actor)
            is_once, target, handler, usual_retry, expires, mode, max_wait, manifest, keeps, author = rest
            retry, asked_retry = usual_retry, None
        key, is_elapsed, recurrence = checks.check_key(request.key), request.at is None, None
        first: int | None
        if is_once:
            if not writes or request.delay is not delay or request.at is not at:
                delay, at = request.delay, request.at
                instant = due_at(delay, at, now, latest=latest)
            first = due = instant
        else:
            first, recurrence = _first_run(request, key, now, latest)
            due = now if first is None else first
            is_elapsed = is_elapsed and request.time is None and interval_of(request.every, request.cron) is not None
        if request.retry is not asked_retry:
            asked_retry = request.retry
            retry = usual_retry if asked_retry is None else check_policy(asked_retry)
        if keeps and request.payload is not None:
            raise InvalidJobError("keep_payload", keeps, "pass payload= or keep_payload=True, not both")
        job = Job(
            key,
            0,
            due,
            checks.encode_payload(request.payload),
            target,
            handler,
            0,
            retry,
            None if expires is None else due + expires,
            recurrence,
            _PENDING,
            None,
            trace if request.trace is None else checks.check_trace(request.trace),
            0,
            None,
            manifest,
        )
        write = Set(
            job,
            mode,
            max_wait,
            None if request.if_generation is None else checks.check_generation(request.if_generation),
            clock_step if is_elapsed else None,
            None,
            keeps,
            not (is_once or request.at is None) and interval_of(request.every, request.cron) is not None,
            first is None,
            None,
            author,
            None,
            None,
            latest if is_estimate and is_elapsed and _is_counted(request, first, latest) else None,
        )
        writes.append(write)
    return writes


_OWN: Final = ("key", "call", "delay", "at", "payload", "retry", "if_generation", "trace")
"""The fields that usually differ between the requests of a batch, and are validated for each request."""
_has_same_rest: Final = is_identical_but(SetRequest, *_OWN, texts=("target", "handler"))


class _Rest(NamedTuple):
    """
    The validated fields of a request that most requests of a batch share.
    """

    is_once: bool
    target: str
    handler: str
    retry: RetryPolicy
    expires_ms: int | None
    mode: SetMode
    max_wait_ms: int | None
    manifest: str | None
    keeps_payload: bool
    actor: Actor | None


def _rest_of(request: SetRequest, retry_of: RetryOf, actor: Actor | None) -> _Rest:
    is_once = request.every is None and request.cron is None
    retry = retry_of(request.target, request.handler)
    if is_once:
        check_once(request)
    manifest = None if request.manifest is None else check_manifest(request.manifest)
    if manifest is not None and is_once:
        raise InvalidJobError("manifest", request.manifest, "it is for recurring jobs: pass every= or cron=")
    mode = _REPLACE if request.mode == "replace" else checks.choice("mode", request.mode, SetMode)
    max_wait = None if request.max_wait is None else checks.span_ms("max_wait", request.max_wait)
    if max_wait is not None and mode is not _REPLACE:
        raise InvalidJobError("max_wait", request.max_wait, f"it bounds mode='replace' only, not {mode.value!r}")
    if mode is SetMode.RESTART and is_once:
        raise InvalidJobError("mode", request.mode, "it is for recurring jobs: pass every= or cron=, or leave it out")
    return _Rest(
        is_once,
        request.target,
        request.handler or "",
        retry,
        None if request.expires is None else checks.span_ms("expires", request.expires),
        mode,
        max_wait,
        manifest,
        request.keep_payload is not False and flag("keep_payload", request.keep_payload),
        None if actor is None or (is_once and not actor.is_always) else actor,
    )


def _first_run(request: SetRequest, key: str, now: int, latest: int | None) -> tuple[int | None, str]:
    has_start = request.delay is not None or request.at is not None
    start = due_at(request.delay, request.at, now, least=0, latest=latest) if has_start else None
    if request.at is not None and interval_of(request.every, request.cron) is None:  # an interval's at= is a phase
        checks.check_date(request.at)
    return first_run(request, key, start, now, latest)


def _is_counted(request: SetRequest, first: int | None, latest: int | None) -> bool:
    """
    Return True if the store may correct the *first* due time of *request* by its own clock.
    """
    if first is None or latest is None or request.until is not None or request.exclude:
        return False  # a corrected due time could be after the end, or excluded
    return first > latest


def answered(answer: Answer, request: SetRequest) -> Answer:
    if answer.outcome is Outcome.FINISHED:
        raise no_run(request.until)
    if answer.outcome is Outcome.OTHER_MANIFEST and answer.job is not None:
        raise other_manifest(answer.job)
    return answer


def trial(request: SetRequest, now: int) -> Job:
    write = set_write(request, now, lambda _target, _handler: USUAL_RETRY)
    if write.is_over:
        raise no_run(request.until)
    return write.job


def other_manifest(job: Job) -> InvalidJobError:
    remedy = f"it belongs to the manifest {job.manifest!r}: take it out there first, or choose another key"
    return InvalidJobError("key", job.key, remedy)


def due_at(
    delay: Duration | None, at: Instant | None, now: int, *, least: int | None = None, latest: int | None = None
) -> int:
    """
    Return the due time of *delay* or *at*, in ms since the epoch.

    If *at* is earlier than *least* (by default *now*), the result is *least*. A delay counts from *latest*, the store's
    highest possible time. Without *latest*, it counts from *now*.
    """
    if at is not None:
        if delay is not None:
            raise InvalidJobError("delay", delay, "pass delay= or at=, not both")
        if least is None:
            checks.check_date(at)
        return max(now if least is None else least, checks.at_ms(at, now))
    if delay is None:
        raise InvalidJobError("delay", delay, "pass delay= in seconds or at= as a time")
    wait = checks.delay_ms(delay)
    if not wait:
        return now
    return (now if latest is None else latest) + wait + 1  # the current millisecond has begun: one more is never early


def job_query(fields: ListFields, now: int) -> JobQuery:
    limit = checks.check_count("limit", fields.get("limit", 100), PAGE_MAX)
    prefix, cursor, state = fields.get("prefix", ""), fields.get("cursor"), fields.get("state")
    due_from, due_until, handler = fields.get("due_from"), fields.get("due_until"), fields.get("handler")
    manifest, since = fields.get("manifest"), fields.get("not_succeeded_since")
    field, payload = _field(fields), _part("payload", fields)
    return JobQuery(
        prefix and checks.check_key(prefix, "prefix"),
        None if state is None else checks.choice("state", state, State),
        None if due_from is None else checks.at_ms(due_from, now, "due_from"),
        None if due_until is None else checks.at_ms(due_until, now, "due_until"),
        None if handler is None else checks.check_handler(handler),
        None if cursor is None else checks.check_key(cursor, "cursor"),
        limit,
        flag("recurring", fields.get("recurring", False)) or since is not None,
        flag("paused", fields.get("paused", False)),
        target=_part("target", fields),
        contains=_part("contains", fields),
        error=_part("error", fields),
        payload=_bytes_of(field) if payload is None else payload.encode(),
        field=field,
        manifest=None if manifest is None else check_manifest(manifest),
        not_succeeded_since=None if since is None else checks.at_ms(since, now, "not_succeeded_since"),
    )


def check_manifest(name: str) -> str:
    if len(checks.check_key(name, "manifest").encode()) > _MANIFEST_BYTES_MAX:
        raise InvalidJobError("manifest", name, f"at most {_MANIFEST_BYTES_MAX} bytes of UTF-8")
    return name


def _part(name: str, fields: Mapping[str, Any]) -> str | None:
    text = fields.get(name)
    return None if text is None else checks.check_key(text, name)


def _field(fields: Mapping[str, Any]) -> str | None:
    field = _part("field", fields)
    if field is not None and not _FIELD.match(field):
        raise InvalidJobError("field", field, "pass NAME=VALUE, as 'number=17' or 'customer.city=Bern'")
    return field


def _bytes_of(field: str | None) -> bytes | None:
    # a prefilter: these bytes occur in every payload with *field*, unless JSON might escape the value
    value = "" if field is None else field.partition("=")[2]
    return value.encode() if _UNESCAPED.fullmatch(value) else None


def check_names(verb: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for name in given:
        if name not in names:
            meant = near(name, names)
            remedy = f"did you mean {meant!r}?" if meant else f"pass some of {', '.join(names)}"
            message = f"{verb}() got an unexpected keyword argument {name!r}: {remedy}"
            raise TypeError(message)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidJobError(name, value, "pass True or False")
    return value
