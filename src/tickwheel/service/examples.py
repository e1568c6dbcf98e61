"""
An example of each body, field and document. All of them describe one job, "tea", which is set at 09:00 for 09:04.
"""

from __future__ import annotations

from typing import Any, Final

from tickwheel.service import bodies, documents
from tickwheel.service.acts import ActsDocument
from tickwheel.service.change_body import ChangeBody
from tickwheel.service.fleet import FleetDocument
from tickwheel.service.incidents import IncidentsDocument
from tickwheel.service.jobs import HistoryDocument
from tickwheel.service.lanes import LanesDocument
from tickwheel.service.manifests import ManifestDocument
from tickwheel.service.minutes import MinutesDocument
from tickwheel.service.pull import EndedDocument, ExtendedDocument, LeasesDocument
from tickwheel.service.schedules import RunsDocument, ScheduleDocument, SchedulesDocument
from tickwheel.service.scopes import ResumedDocument, ScopesDocument
from tickwheel.service.stats import StatsDocument

__all__ = ["ANSWERS", "BODIES", "FIELDS"]

_SET_AT: Final = "2030-01-01T09:00:00Z"
_DUE_AT: Final = "2030-01-01T09:04:00Z"
_OWNER: Final = "kettle:4711:9f2c6e1d"
_FIRE_ID: Final = "tea/17/1"

_JOB: Final[dict[str, Any]] = {
    "key": "tea",
    "generation": 17,
    "state": "pending",
    "due_at": _DUE_AT,
    "target": "pull",
    "handler": "kitchen",
    "payload": {"cups": 2},
    "attempt": 0,
    "retry": {"attempts": 5, "kind": "exponential", "base_s": 1.0, "max_s": 3600.0, "jitter": 0.1, "waits_s": []},
    "expires_at": None,
    "recurrence": None,
    "error": None,
    "trace": None,
    "first_set_at": _SET_AT,
}
_FIRING: Final[dict[str, Any]] = {
    **{name: _JOB[name] for name in ("key", "generation", "target", "handler", "due_at", "error")},
    "fire_id": _FIRE_ID,
    "attempt": 1,
    "fired_at": "2030-01-01T09:04:00.001Z",
    "lateness_ms": 0.7,
    "outcome": "succeeded",
    "took_ms": None,
    "by": _OWNER,
    "progress": None,
}
_RECORD: Final[dict[str, Any]] = {
    **{name: _FIRING[name] for name in ("key", "generation", "attempt", "target", "handler", "due_at", "lateness_ms")},
    "number": 41,
    "at": "2030-01-01T09:04:02.512Z",
    "outcome": "failed",
    "by": _OWNER,
    "took_ms": 2511.3,
    "error": "KettleError: it is empty",
    "traceback": None,
    "trace": None,
    "note": "page 12",
    "nominal_at": "2030-01-01T09:00:00Z",
    "was_due_at": None,
    "bulk": None,
}
_ACT: Final[dict[str, Any]] = {
    **_RECORD,
    **dict.fromkeys(("lateness_ms", "took_ms", "error", "note", "nominal_at")),
    "attempt": 0,
    "outcome": "moved",
    "by": "http",
    "was_due_at": "2030-01-01T09:00:00Z",
}
_LANE_MINUTE: Final[dict[str, Any]] = {
    "lane": "handler:make_tea",
    "fired": 120,
    "failed": 1,
    "dead": 0,
    "overdue": 0,
    "wait_ms": 42.0,
    "took_ms": 3600.0,
    "late_max_ms": 11.0,
    "lateness": [110, 7, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
}
_MINUTE: Final[dict[str, Any]] = {
    "node": _OWNER,
    "at": "2030-01-01T09:04:00Z",
    "span_s": 60,
    "commits": 48,
    "commit_ms": 96.4,
    "commit_max_ms": 7.2,
    "total": {**_LANE_MINUTE, "lane": ""},
    "lanes": [_LANE_MINUTE],
}
_LANE_ROW: Final[dict[str, Any]] = {
    "lane": "pull:images",
    "waiting": 12,
    "is_full": False,
    "running": 0,
    "limit": None,
    "oldest_due_at": "2030-01-01T09:00:00Z",
    "fired": 340,
    "failed": 2,
    "p50_ms": 8.0,
    "p99_ms": 64.0,
    "workers": 0,
    "nodes": None,
    "receiver": None,
    "reason": "no_worker",
    "text": "no worker pulls images",
    "is_stuck": True,
    "scope": "pull:images",
    "pause": None,
    "is_drained": False,
}
_PAUSED: Final[dict[str, Any]] = {
    "at": _SET_AT,
    "by": "http",
    "note": "the kettle is being repaired",
    "scope": "pull:kitchen",
}
_RULE: Final[dict[str, Any]] = {"cron": "0 9 * * 1-5", "jitter_ms": 0, "misfire": "once", "tz": "Europe/Berlin"}
_RUNS: Final = ["2030-01-01T08:00:00Z", "2030-01-02T08:00:00Z"]
_SCHEDULE: Final[dict[str, Any]] = {
    **{name: _JOB[name] for name in ("generation", "state", "target", "handler")},
    "key": "standup",
    "rule": _RULE,
    "runs": _RUNS,
}
_QUANTILES: Final[dict[str, Any]] = {"count": 2, "p50_ms": 0.4, "p99_ms": 0.7, "max_ms": 0.7}
_LATENESS: Final[dict[str, Any]] = {
    **_QUANTILES,
    "sum_ms": 1.1,
    "histogram": [[0.5, 1], [1.0, 1], [None, 0]],
    "traces": [{"lateness_ms": 0.7, "fired_at": _DUE_AT, "trace": f"00-{'4b':0>32}-{'9c':0>16}-01"}],
}
_RESULTS: Final = {
    "succeeded": 2,
    **dict.fromkeys(("retried", "snoozed", "dead_total", "expired", "given_back", "stopped"), 0),
}
_LANE: Final[dict[str, Any]] = {
    "lane": "handler:mail",
    "reason": "rate",
    "staged": 6250,
    "waiting": 6250,
    "running": 1,
    "oldest_due_at": _SET_AT,
    "is_full": True,
    "concurrency": None,
    "rate": 5.0,
}
_EXPLANATION: Final[dict[str, Any]] = {
    "key": "letter/17",
    "reason": "rate",
    "lane": "handler:mail",
    "text": "its handler begins 5 attempts a second; 6250 due jobs of it wait in memory",
    "remedy": "wait, or raise rate= of the handler, or cancel jobs of its lane",
    "until": None,
    "owner": _OWNER,
    "state": _LANE,
}
_STATS: Final[dict[str, Any]] = {
    **dict.fromkeys(("running", "dead", "failed", "retried", "snoozed", "expired", "dead_total", "refused"), 0),
    **dict.fromkeys(("given_back", "stopped", "waiting", "in_flight", "paused"), 0),
    "now": _SET_AT,
    "changes": 7,
    "pending": 1,
    "fired": 2,
    "succeeded": 2,
    "staged": 1,
    "in_memory": 1,
    "by_target": {"pull": _RESULTS},
    "by_handler": [{"target": "pull", "handler": "kitchen", **_RESULTS}],
    "targets": {"webhook": {"https://example.com": {"state": "open", "failures": 5, "open_s": 12.5, "reason": "502"}}},
    "pull": {"kitchen": {"waiting": 1, "oldest_due_at": _SET_AT, "ready": 0, "leased": 0, "workers": 2}},
    "commits": 5,
    "commit": {
        "writes": 7,
        "mean_size": 1.4,
        "mean_ms": 0.8,
        "largest": 3,
        "last_size": 1,
        "last_ms": 0.7,
        "retries": 0,
        "failures": 0,
        "waiting": 0,
        "p50_ms": 0.7,
        "p99_ms": 1.1,
        "max_ms": 1.1,
    },
    "leases": {"renewals": 40, "failures": 0, "trusted_s": 8.0, "silent_s": 0.4},
    "wheel": {
        **dict.fromkeys(("moves", "cancels", "cascades", "refiles", "notices"), 0),
        "pending": 1,
        "sets": 3,
        "fires": 2,
        "sorted_by_level": [2, 0, 0, 0, 0, 0, 0, 0, 0],
        "cascaded_by_level": [0, 0, 0, 0, 0, 0, 0, 0, 0],
        "bytes": 4096,
        "wakeups": 4,
    },
    "shards": [0],
    "tails": [],
    "shards_all": 1,
    "lateness": _LATENESS,
    "paused_scopes": [_PAUSED | {"count": 3}],
    "waiting_for_handler": [],
    "leaked": [],
    "full_lanes": [{"lane": "handler:mail", "staged": 6250, "reason": "rate"}],
    "lanes": [_LANE],
    "owner": _OWNER,
    "epoch": 3,
    "store": "sqlite:///tickwheel.db",
    "loss_window": "",
    "offset_ms": 0.0,
    "next_due_at": _DUE_AT,
}

BODIES: Final[dict[Any, Any]] = {
    bodies.SetBody: {"delay": 240, "target": "pull", "handler": "kitchen", "payload": {"cups": 2}},
    bodies.MoveBody: {"delay": 300},
    ChangeBody: {"payload": {"cups": 3}, "retry": {"attempts": 2}},
    bodies.PauseBody: {"note": _PAUSED["note"]},
    bodies.PauseScopeBody: {"scope": _PAUSED["scope"], "note": _PAUSED["note"]},
    bodies.ScopeBody: {"scope": _PAUSED["scope"]},
    bodies.BatchBody: {
        "items": [
            {"do": "set", "key": "tea", "delay": 240, "target": "pull", "handler": "kitchen"},
            {"do": "move", "key": "eggs", "at": _DUE_AT},
            {"do": "cancel", "key": "toast", "if_generation": 12},
        ]
    },
    bodies.BackfillBody: {"since": "2029-12-01T00:00:00Z", "until": "2029-12-24T00:00:00Z", "rate": 0.5},
    bodies.ManifestBody: {
        "jobs": [
            {"key": "standup", "cron": "0 9 * * MON-FRI", "tz": "Europe/Berlin", "handler": "kitchen", "target": "pull"}
        ],
        "revision": 412,
    },
    bodies.BulkBody: {"do": "move", "prefix": "breakfast/", "handler": "kitchen", "shift": 3600, "dry_run": True},
    bodies.LeaseBody: {"queue": "kitchen", "limit": 10, "wait": 20, "seconds": 60},
    bodies.AckBody: {"fire_id": _FIRE_ID},
    bodies.ReleaseBody: {"fire_id": _FIRE_ID, "delay": 5},
    bodies.NackBody: {"fire_id": _FIRE_ID, "delay": 30, "error": "the kettle is empty"},
    bodies.ExtendBody: {"fire_id": _FIRE_ID, "seconds": 120},
}
"""Examples by the type of the body."""

FIELDS: Final[dict[str, Any]] = {
    "at": _SET_AT,
    "count": 2,
    "cron": "0 9 * * 1-5",
    "due_from": _SET_AT,
    "due_until": "2030-01-01T10:00:00Z",
    "handler": "kitchen",
    "key": "tea",
    "keys": 3,
    "limit": 50,
    "manifest": "breakfast",
    "name": "breakfast",
    "prefix": "breakfast/",
    "seconds": 5,
    "since": _SET_AT,
    "step": 60,
    "steps": 60,
    "tz": "Europe/Berlin",
}
"""Examples by the name of a field in the query or address. Mutually exclusive fields have no example."""

ANSWERS: Final[dict[Any, Any]] = {
    documents.AnswerDocument: {"outcome": "created", "job": _JOB},
    documents.JobDocument: _JOB,
    documents.PageDocument: {"jobs": [_JOB], "cursor": None},
    documents.BatchDocument: {
        "results": [
            {"key": "tea", "status": 201, "outcome": "created", "generation": 17, "due_at": _DUE_AT},
            {"key": "toast", "status": 404, "outcome": "refused", "problem": {"type": "/problems/job_not_found"}},
        ]
    },
    ManifestDocument: {
        "manifest": "breakfast",
        "outcome": "changed",
        "revision": 412,
        "jobs": [{"key": "standup", "outcome": "created", "job": _JOB, "before": None}],
    },
    documents.BackfillDocument: {"runs": 17, "created": 17, "next_at": None},
    documents.BulkDocument: {
        "matched": 3,
        "changed": 0,
        "refused": 0,
        "cursor": None,
        "start": "17.1893491200000/",
        "stopping": 0,
        "changes": [],
    },
    SchedulesDocument: {"schedules": [_SCHEDULE], "cursor": None},
    ScheduleDocument: _SCHEDULE,
    documents.PauseDocument: _PAUSED,
    IncidentsDocument: {
        "incidents": [
            {
                "fingerprint": "5d1f0c9a7be24e63",
                "error": "TimeoutError: no answer in … s",
                "example": "TimeoutError: no answer in 2.5 s",
                "count": 12,
                "errors": 5,
                "first_at": _SET_AT,
                "last_at": _DUE_AT,
                "by_hour": [*[0] * 23, 12],
                "places": [{"target": "handler", "handler": "boil", "count": 12}],
                "keys": ["tea", "eggs", "soup"],
                "raised_in": "kitchen.boil+3",
            }
        ],
        "looked_at": 12,
        "is_all": True,
    },
    ActsDocument: {"acts": [_ACT]},
    LanesDocument: {"now": _SET_AT, "span_s": 900, "lanes": [_LANE_ROW]},
    MinutesDocument: {"edges_ms": [4 << step for step in range(11)], "minutes": [_MINUTE]},
    ScopesDocument: {"pauses": [_PAUSED]},
    ResumedDocument: {"was_paused": True},
    RunsDocument: {"rule": _RULE, "runs": _RUNS},
    LeasesDocument: {
        "leases": [
            {
                "fire_id": _FIRE_ID,
                "attempt": 1,
                "is_last_attempt": False,
                "until": "2030-01-01T09:05:00Z",
                "nominal_at": "2030-01-01T09:00:00Z",
                "job": _JOB,
            }
        ]
    },
    EndedDocument: {"outcome": "acknowledged"},
    ExtendedDocument: {"until": "2030-01-01T09:06:00Z"},
    documents.ShardsDocument: {
        "store": "postgresql:///jobs",
        "owner": _OWNER,
        "epoch": 3,
        "shards": [{"shard": 0, "owner": _OWNER, "epoch": 3, "until": "2030-01-01T09:00:10Z"}],
    },
    FleetDocument: {
        "now": _SET_AT,
        "store": "postgresql:///jobs",
        "owner": _OWNER,
        "nodes": [
            {
                "owner": _OWNER,
                "is_this": True,
                "state": "well",
                "heard_at": _SET_AT,
                "until": "2030-01-01T09:00:10Z",
                "shards": [0],
                "tails": [],
                "figures": {
                    **dict.fromkeys(("failed", "dead", "waiting", "in_flight"), 0),
                    "progress": [
                        {"key": "import/41", "generation": 7, "attempt": 1, "fraction": 0.4, "note": "page 12"}
                    ],
                    "recent": [
                        {
                            "key": "mail/17",
                            "generation": 6,
                            "attempt": 1,
                            "fired_at": _SET_AT,
                            "lateness_ms": 0.8,
                            "outcome": "succeeded",
                        }
                    ],
                    "version": "0.1.0",
                    "started_at": _SET_AT,
                    "every_s": 3.333,
                    "fired": 2,
                    "places": 8,
                    "staged": 1,
                    "in_memory": 1,
                    "lately": {"span_s": 60.0, "fired": 2, **_QUANTILES},
                },
            }
        ],
        "shards": [{"shard": 0, "owner": _OWNER, "epoch": 3, "until": "2030-01-01T09:00:10Z"}],
    },
    documents.WheelDocument: {
        "timers": 1,
        "slot_max": 1,
        "cascades": 0,
        "wakeups": 4,
        "bytes": 4096,
        "levels": [{"level": 3, "slot_ns": 4_294_967_296, "hand": 12, "into_ns": 5, "counts": {"14": 1}}],
    },
    documents.CountsDocument: {"counts": [0, 0, 0, 0, 1]},
    documents.FiringsDocument: {"firings": [_FIRING]},
    HistoryDocument: {"records": [_RECORD]},
    documents.ExplanationDocument: _EXPLANATION,
    StatsDocument: _STATS,
    documents.ForecastDocument: {
        "next_due_at": _DUE_AT,
        "strips": [{"name": "hour", "since": _SET_AT, "step_s": 60, "counts": [0, 0, 0, 0, 1]}],
    },
    documents.CountersDocument: {"counts": {"pending": 1, "wakeups": 4}},
}
"""Examples by the type of the document."""
