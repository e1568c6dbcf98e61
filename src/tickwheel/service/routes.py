"""
Every operation of the API, as a table: the application routes by it, and the OpenAPI document is generated from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.types import ASGIApp

from tickwheel.service.batch import Batches
from tickwheel.service.bodies import (
    AckBody,
    BackfillBody,
    BatchBody,
    BulkBody,
    ExtendBody,
    LeaseBody,
    MoveBody,
    NackBody,
    PauseBody,
    PauseScopeBody,
    ScopeBody,
    SetBody,
)
from tickwheel.service.change_body import ChangeBody
from tickwheel.service.debug import PROFILE_FIELDS, Debug
from tickwheel.service.denials import Denials
from tickwheel.service.documents import (
    AnswerDocument,
    BackfillDocument,
    BatchDocument,
    BulkDocument,
    CountersDocument,
    CountsDocument,
    FiringsDocument,
    ForecastDocument,
    JobDocument,
    PageDocument,
    PauseDocument,
    ShardsDocument,
    WheelDocument,
)
from tickwheel.service.figures import DUE_FIELDS, FIRING_FIELDS, Figures
from tickwheel.service.fleet import Fleet, FleetDocument
from tickwheel.service.history import HistoryDocument
from tickwheel.service.http import Request
from tickwheel.service.incidents import INCIDENT_FIELDS, Incidents, IncidentsDocument
from tickwheel.service.jobs import CANCEL_FIELDS, HISTORY_FIELDS, LIST_FIELDS, Jobs
from tickwheel.service.live import Live
from tickwheel.service.metrics import Metrics
from tickwheel.service.pull import EndedDocument, ExtendedDocument, LeasesDocument, Pulls
from tickwheel.service.schedules import (
    COUNT_FIELDS,
    RULE_FIELDS,
    SCHEDULES_FIELDS,
    RunsDocument,
    ScheduleDocument,
    Schedules,
    SchedulesDocument,
)
from tickwheel.service.scopes import ResumedDocument, Scopes, ScopesDocument
from tickwheel.service.stats import StatsDocument

__all__ = ["Endpoint", "Operation", "operations"]

Endpoint = Callable[[Request], Awaitable[ASGIApp]]
"""From a request to what answers it."""

_OPEN: Final = ("malformed_request", "wrong_host")
_READ: Final = ("malformed_request", "unauthorized", "forbidden", "wrong_host", "invalid_value", "too_many_requests")
_READ_ONE: Final = (*_READ, "job_not_found")
_WRITE: Final = (*_READ, "idempotency_key_reused")
_WRITE_ONE: Final = (*_WRITE, "job_not_found", "too_late", "wrong_generation")
_BODY: Final = ("malformed_json", "slow_request", "too_large", "unsupported_media_type")
_STORE: Final = ("store_unavailable",)
_METRICS: Final = "text/plain, application/openmetrics-text"
_WORK: Final = (*_WRITE, *_BODY, *_STORE, "lease_ended")


@dataclass(frozen=True, slots=True)
class Operation:
    """
    One row of the table.

    Attributes:
        method: The HTTP method.
        path: The address, as OpenAPI writes it.
        run: What does it; the first line of its docstring is the summary.
        answers: By status, the document's type, or the media types of what is not a document.
        problems: The kinds of problems that it may answer.
        body: The type of its body.
        query: The fields of its query: by name, their JSON schema.
        has_conditions: Whether it heeds `If-Match`; `can_create`: and `If-None-Match: *`.
        is_open: Whether it needs no token.
        takes_msgpack: Whether its body may be MessagePack.
    """

    method: str
    path: str
    run: Endpoint
    answers: Mapping[int, Any]
    problems: tuple[str, ...] = ()
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    has_conditions: bool = False
    can_create: bool = False
    is_open: bool = False
    takes_msgpack: bool = False


def operations(
    *,
    jobs: Jobs,
    batches: Batches,
    schedules: Schedules,
    scopes: Scopes,
    incidents: Incidents,
    pulls: Pulls,
    figures: Figures,
    fleet: Fleet,
    live: Live,
    debug: Debug,
    denials: Denials,
) -> tuple[Operation, ...]:
    """
    Return the table over these.
    """
    metrics = Metrics(figures, denials)
    key, keys, schedule, pull = "/v1/jobs/{key}", "/v1/jobs", "/v1/schedules", "/v1/pull"
    return (
        Operation(
            "PUT",
            key,
            jobs.set,
            {200: AnswerDocument, 201: AnswerDocument},
            (*_WRITE, *_BODY, *_STORE, "unknown_handler", "wrong_generation"),
            SetBody,
            has_conditions=True,
            can_create=True,
        ),
        Operation("GET", key, jobs.get, {200: JobDocument}, (*_READ_ONE, *_STORE)),
        Operation(
            "PATCH",
            key,
            jobs.move,
            {200: AnswerDocument},
            (*_WRITE_ONE, *_BODY, *_STORE),
            MoveBody,
            has_conditions=True,
        ),
        Operation(
            "DELETE",
            key,
            jobs.cancel,
            {200: AnswerDocument},
            (*_WRITE_ONE, *_STORE),
            query=CANCEL_FIELDS,
            has_conditions=True,
        ),
        Operation(
            "POST", f"{key}:run", jobs.run_now, {200: AnswerDocument}, (*_WRITE_ONE, *_STORE), has_conditions=True
        ),
        Operation("POST", f"{key}:skip", jobs.skip, {200: AnswerDocument}, (*_WRITE_ONE, *_STORE), has_conditions=True),
        Operation(
            "POST",
            f"{key}:change",
            jobs.change,
            {200: AnswerDocument},
            (*_WRITE_ONE, *_BODY, *_STORE, "unknown_handler"),
            ChangeBody,
            has_conditions=True,
        ),
        Operation(
            "POST",
            f"{key}:pause",
            jobs.pause,
            {200: AnswerDocument},
            (*_WRITE_ONE, *_BODY, *_STORE),
            PauseBody,
            has_conditions=True,
        ),
        Operation(
            "POST",
            f"{key}:resume",
            jobs.resume,
            {200: AnswerDocument},
            (*_WRITE, *_STORE, "job_not_found", "wrong_generation"),
            has_conditions=True,
        ),
        Operation(
            "POST", f"{key}:replay", jobs.replay, {200: AnswerDocument}, (*_WRITE_ONE, *_STORE), has_conditions=True
        ),
        Operation(
            "GET", f"{key}:history", jobs.history, {200: HistoryDocument}, (*_READ, *_STORE), query=HISTORY_FIELDS
        ),
        Operation("GET", keys, jobs.list, {200: PageDocument}, (*_READ, *_STORE), query=LIST_FIELDS),
        Operation(
            "POST",
            f"{keys}:batch",
            batches.apply,
            {200: BatchDocument},
            (*_WRITE, *_BODY, *_STORE, "unknown_handler"),
            BatchBody,
            takes_msgpack=True,
        ),
        Operation("POST", f"{keys}:bulk", batches.bulk, {200: BulkDocument}, (*_WRITE, *_BODY, *_STORE), BulkBody),
        Operation("GET", schedule, schedules.list, {200: SchedulesDocument}, (*_READ, *_STORE), query=SCHEDULES_FIELDS),
        Operation("GET", f"{schedule}:next", schedules.next, {200: RunsDocument}, _READ, query=RULE_FIELDS),
        Operation(
            "GET",
            f"{schedule}/{{key}}",
            schedules.get,
            {200: ScheduleDocument},
            (*_READ_ONE, *_STORE),
            query=COUNT_FIELDS,
        ),
        Operation(
            "POST",
            f"{schedule}/{{key}}:backfill",
            schedules.backfill,
            {200: BackfillDocument},
            (*_WRITE, *_BODY, *_STORE, "job_not_found"),
            BackfillBody,
        ),
        Operation(
            "GET", "/v1/incidents", incidents.list, {200: IncidentsDocument}, (*_READ, *_STORE), query=INCIDENT_FIELDS
        ),
        Operation("GET", "/v1/scopes", scopes.get, {200: ScopesDocument}, (*_READ, *_STORE)),
        Operation(
            "POST", "/v1/scopes:pause", scopes.pause, {200: PauseDocument}, (*_WRITE, *_BODY, *_STORE), PauseScopeBody
        ),
        Operation(
            "POST", "/v1/scopes:resume", scopes.resume, {200: ResumedDocument}, (*_WRITE, *_BODY, *_STORE), ScopeBody
        ),
        Operation("POST", f"{pull}:lease", pulls.lease, {200: LeasesDocument}, _WORK, LeaseBody),
        Operation("POST", f"{pull}:ack", pulls.ack, {200: EndedDocument}, _WORK, AckBody),
        Operation("POST", f"{pull}:nack", pulls.nack, {200: EndedDocument}, _WORK, NackBody),
        Operation("POST", f"{pull}:extend", pulls.extend, {200: ExtendedDocument}, _WORK, ExtendBody),
        Operation("GET", "/v1/fleet", fleet.get, {200: FleetDocument}, (*_READ, *_STORE)),
        Operation("GET", "/v1/shards", figures.get_shards, {200: ShardsDocument}, (*_READ, *_STORE)),
        Operation("GET", "/v1/wheel", figures.get_wheel, {200: WheelDocument}, (*_READ, *_STORE)),
        Operation("GET", "/v1/due", figures.get_due, {200: CountsDocument}, (*_READ, *_STORE), query=DUE_FIELDS),
        Operation("GET", "/v1/firings", figures.get_firings, {200: FiringsDocument}, _READ, query=FIRING_FIELDS),
        Operation("GET", "/v1/stats", figures.get_stats, {200: StatsDocument}, (*_READ, *_STORE)),
        Operation("GET", "/v1/forecast", figures.get_forecast, {200: ForecastDocument}, (*_READ, *_STORE)),
        Operation("GET", "/v1/live", live.stream, {200: "text/event-stream"}, _READ),
        Operation("GET", "/metrics", metrics.get, {200: _METRICS}, (*_READ, *_STORE)),
        Operation("GET", "/debug/stacks", debug.stacks, {200: "text/plain"}, _READ),
        Operation("GET", "/debug/wheel", debug.wheel, {200: CountersDocument}, (*_READ, *_STORE)),
        Operation("GET", "/debug/profile", debug.profile, {200: "text/plain"}, _READ, query=PROFILE_FIELDS),
        Operation("GET", "/healthz", figures.healthz, {200: "text/plain"}, _OPEN, is_open=True),
        Operation("GET", "/readyz", figures.readyz, {200: "text/plain"}, (*_OPEN, *_STORE), is_open=True),
    )
