"""
Every operation of the API, as a table. The application routes by it, and the OpenAPI document is generated from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from starlette.types import ASGIApp

from tickwheel.service import bodies, documents
from tickwheel.service.acts import ACT_FIELDS, Acts, ActsDocument
from tickwheel.service.batch import Batches
from tickwheel.service.change_body import ChangeBody
from tickwheel.service.debug import PROFILE_FIELDS, Debug
from tickwheel.service.figures import DUE_FIELDS, FIRING_FIELDS, LIVE_FIELDS, Figures, Metrics
from tickwheel.service.fleet import Fleet, FleetDocument
from tickwheel.service.http import Request
from tickwheel.service.incidents import INCIDENT_FIELDS, Incidents, IncidentsDocument
from tickwheel.service.jobs import CANCEL_FIELDS, HISTORY_FIELDS, LIST_FIELDS, HistoryDocument, Jobs
from tickwheel.service.lanes import Lanes, LanesDocument
from tickwheel.service.live import Live
from tickwheel.service.manifests import ManifestDocument, Manifests
from tickwheel.service.minutes import MINUTE_FIELDS, Minutes, MinutesDocument
from tickwheel.service.pull import EndedDocument, ExtendedDocument, LeasesDocument, Pulls
from tickwheel.service.rejections import Rejections
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

__all__ = ["Endpoint", "KeptBy", "Operation", "operations"]

Endpoint = Callable[[Request], Awaitable[ASGIApp]]
"""A function that returns the answer to a request."""

KeptBy: TypeAlias = Literal["write", "request", "node"]
"""
The place where the answer to a request is kept, in case the request is repeated.

"write": in the store, in the transaction of the write. "request": in the store, after the whole request. "node": in the
memory of the node, like the leases of pull workers.
"""

# The problems of each kind of operation: without a token, reads, reads of the store, writes, and writes with a body.
_OPEN: Final = ("malformed_request", "wrong_host")
_READ: Final = ("malformed_request", "unauthorized", "forbidden", "wrong_host", "invalid_value", "too_many_requests")
_ASK: Final = (*_READ, "store_unavailable")
_ASK_ONE: Final = (*_ASK, "job_not_found")
_WRITE: Final = (*_ASK, "idempotency_key_reused")
_WRITE_ONE: Final = (*_WRITE, "job_not_found", "too_late", "wrong_generation")
_BODY: Final = ("malformed_json", "slow_request", "too_large", "unsupported_media_type")
_SEND: Final = (*_WRITE, *_BODY)
_SET: Final = (*_SEND, "unknown_handler")
_WORK: Final = (*_SEND, "lease_ended")
_METRICS: Final = "text/plain, application/openmetrics-text"


@dataclass(frozen=True, slots=True)
class Operation:
    """
    One operation of the API.

    Attributes:
        path: The address, as OpenAPI writes it.
        run: The function. The first line of its docstring is the summary.
        answer: The type of the document in a successful answer, or the media types of other content.
        problems: The types of problems that may be the answer.
        query: The JSON schemas of its query fields, by name.
        can_create: True if a new job is answered with 201, and `If-None-Match: *` is evaluated.
        is_open: True if it needs no token.
        takes_msgpack: True if its body may be MessagePack.
        kept_by: The place where the answer to a request with an idempotency key is stored.
    """

    method: str
    path: str
    run: Endpoint
    answer: Any
    problems: tuple[str, ...]
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    can_create: bool = False
    is_open: bool = False
    takes_msgpack: bool = False
    kept_by: KeptBy = "request"

    @property
    def has_conditions(self) -> bool:
        return "wrong_generation" in self.problems


def operations(
    *,
    jobs: Jobs,
    batches: Batches,
    schedules: Schedules,
    manifests: Manifests,
    scopes: Scopes,
    incidents: Incidents,
    minutes: Minutes,
    acts: Acts,
    pulls: Pulls,
    figures: Figures,
    fleet: Fleet,
    lanes: Lanes,
    live: Live,
    debug: Debug,
    rejections: Rejections,
) -> tuple[Operation, ...]:
    metrics = Metrics(figures, rejections)
    key, keys, schedule, pull = "/v1/jobs/{key}", "/v1/jobs", "/v1/schedules", "/v1/pull"
    answer = documents.AnswerDocument
    return (
        Operation(
            "PUT", key, jobs.set, answer, (*_SET, "wrong_generation"), bodies.SetBody, can_create=True, kept_by="write"
        ),
        Operation("GET", key, jobs.get, documents.JobDocument, _ASK_ONE),
        Operation("PATCH", key, jobs.move, answer, (*_WRITE_ONE, *_BODY), bodies.MoveBody, kept_by="write"),
        Operation("DELETE", key, jobs.cancel, answer, _WRITE_ONE, query=CANCEL_FIELDS, kept_by="write"),
        Operation("POST", f"{key}:run", jobs.run_now, answer, _WRITE_ONE, kept_by="write"),
        Operation("POST", f"{key}:skip", jobs.skip, answer, _WRITE_ONE),
        Operation("POST", f"{key}:change", jobs.change, answer, (*_WRITE_ONE, *_BODY, "unknown_handler"), ChangeBody),
        Operation("POST", f"{key}:pause", jobs.pause, answer, (*_WRITE_ONE, *_BODY), bodies.PauseBody, kept_by="write"),
        Operation(
            "POST",
            f"{key}:resume",
            jobs.resume,
            answer,
            (*_WRITE, "job_not_found", "wrong_generation"),
            kept_by="write",
        ),
        Operation("POST", f"{key}:replay", jobs.replay, answer, _WRITE_ONE, kept_by="write"),
        Operation("GET", f"{key}:history", jobs.history, HistoryDocument, _ASK, query=HISTORY_FIELDS),
        Operation("GET", f"{key}:explain", jobs.explain, documents.ExplanationDocument, _ASK_ONE),
        Operation("GET", keys, jobs.list, documents.PageDocument, _ASK, query=LIST_FIELDS),
        Operation(
            "POST", f"{keys}:batch", batches.apply, documents.BatchDocument, _SET, bodies.BatchBody, takes_msgpack=True
        ),
        Operation("POST", f"{keys}:bulk", batches.bulk, documents.BulkDocument, _SEND, bodies.BulkBody),
        Operation("GET", schedule, schedules.list, SchedulesDocument, _ASK, query=SCHEDULES_FIELDS),
        Operation("GET", f"{schedule}:next", schedules.next, RunsDocument, _READ, query=RULE_FIELDS),
        Operation("GET", f"{schedule}/{{key}}", schedules.get, ScheduleDocument, _ASK_ONE, query=COUNT_FIELDS),
        Operation(
            "POST",
            f"{schedule}/{{key}}:backfill",
            schedules.backfill,
            documents.BackfillDocument,
            (*_SEND, "job_not_found"),
            bodies.BackfillBody,
        ),
        Operation("PUT", "/v1/manifests/{name}", manifests.declare, ManifestDocument, _SET, bodies.ManifestBody),
        Operation("GET", "/v1/incidents", incidents.list, IncidentsDocument, _ASK, query=INCIDENT_FIELDS),
        Operation("GET", "/v1/acts", acts.list, ActsDocument, _ASK, query=ACT_FIELDS),
        Operation("GET", "/v1/minutes", minutes.list, MinutesDocument, _ASK, query=MINUTE_FIELDS),
        Operation("GET", "/v1/scopes", scopes.get, ScopesDocument, _ASK),
        Operation("POST", "/v1/scopes:pause", scopes.pause, documents.PauseDocument, _SEND, bodies.PauseScopeBody),
        Operation("POST", "/v1/scopes:resume", scopes.resume, ResumedDocument, _SEND, bodies.ScopeBody),
        Operation("POST", f"{pull}:lease", pulls.lease, LeasesDocument, _WORK, bodies.LeaseBody, kept_by="node"),
        Operation("POST", f"{pull}:ack", pulls.ack, EndedDocument, _WORK, bodies.AckBody, kept_by="node"),
        Operation("POST", f"{pull}:nack", pulls.nack, EndedDocument, _WORK, bodies.NackBody, kept_by="node"),
        Operation("POST", f"{pull}:release", pulls.release, EndedDocument, _WORK, bodies.ReleaseBody, kept_by="node"),
        Operation("POST", f"{pull}:extend", pulls.extend, ExtendedDocument, _WORK, bodies.ExtendBody, kept_by="node"),
        Operation("GET", "/v1/fleet", fleet.get, FleetDocument, _ASK),
        Operation("GET", "/v1/lanes", lanes.list, LanesDocument, _ASK),
        Operation("GET", "/v1/shards", figures.get_shards, documents.ShardsDocument, _ASK),
        Operation("GET", "/v1/wheel", figures.get_wheel, documents.WheelDocument, _ASK),
        Operation("GET", "/v1/due", figures.get_due, documents.CountsDocument, _ASK, query=DUE_FIELDS),
        Operation("GET", "/v1/firings", figures.get_firings, documents.FiringsDocument, _READ, query=FIRING_FIELDS),
        Operation("GET", "/v1/stats", figures.get_stats, StatsDocument, _ASK),
        Operation("GET", "/v1/forecast", figures.get_forecast, documents.ForecastDocument, _ASK),
        Operation("GET", "/v1/live", live.stream, "text/event-stream", _READ, query=LIVE_FIELDS),
        Operation("GET", "/metrics", metrics.get, _METRICS, _ASK),
        Operation("GET", "/debug/stacks", debug.stacks, "text/plain", _READ),
        Operation("GET", "/debug/wheel", debug.wheel, documents.CountersDocument, _ASK),
        Operation("GET", "/debug/profile", debug.profile, "text/plain", _READ, query=PROFILE_FIELDS),
        Operation("GET", "/healthz", figures.healthz, "text/plain", _OPEN, is_open=True),
        Operation("GET", "/readyz", figures.readyz, "text/plain", (*_OPEN, "store_unavailable"), is_open=True),
    )
