"""
The documents of `--json`, which equal those of the HTTP API. This module needs no library of the service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from tickwheel.jobs.model import Pause, RetryPolicy
from tickwheel.scheduler import Explanation, HistoryRecord, Incident, Job

__all__ = [
    "explanation_document",
    "incident_document",
    "instant",
    "job_document",
    "pause_document",
    "record_document",
    "schedule_document",
]


def instant(ms: float) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def job_document(job: Job) -> dict[str, Any]:
    document = {name: getattr(job, name) for name in _NAMES}
    for name, shown in _SHOWN.items():
        if document[name] is not None:
            document[name] = shown(document[name])
    return document


def record_document(record: HistoryRecord) -> dict[str, Any]:
    begun_at, took_ms = record.begun_at, record.took_ms
    return {
        "number": record.number,
        "at": instant(record.at),
        "key": record.key,
        "generation": record.generation,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "by": record.by,
        "target": record.target,
        "handler": record.handler,
        "due_at": instant(record.due_at),
        "lateness_ms": None if begun_at is None else round(begun_at - record.due_at, 3),
        "took_ms": None if took_ms is None else round(took_ms, 3),
        "error": record.error,
        "traceback": record.traceback,
        "trace": record.trace,
        "note": record.note,
        "nominal_at": None if record.nominal_at is None else instant(record.nominal_at),
        "was_due_at": None if record.was_due_at is None else instant(record.was_due_at),
        "bulk": record.bulk,
    }


def explanation_document(found: Explanation) -> dict[str, Any]:
    document = asdict(found)
    for part, name in ((document, "until"), (document["state"] or {}, "oldest_due_at")):
        if part.get(name) is not None:
            part[name] = instant(part[name])
    return document


def incident_document(incident: Incident) -> dict[str, Any]:
    return {
        "fingerprint": incident.fingerprint,
        "error": incident.error,
        "example": incident.example,
        "count": incident.count,
        "errors": incident.errors,
        "first_at": instant(incident.first_at),
        "last_at": instant(incident.last_at),
        "by_hour": incident.by_hour,
        "places": [
            {"target": target, "handler": handler, "count": count} for target, handler, count in incident.places
        ],
        "keys": incident.keys,
        "raised_in": incident.raised_in,
    }


def schedule_document(job: Job, runs: Iterable[int]) -> dict[str, Any]:
    return {
        "key": job.key,
        "generation": job.generation,
        "state": job.state.value,
        "rule": json.loads(job.recurrence or "{}"),
        "runs": [instant(run) for run in runs],
        "target": job.target,
        "handler": job.handler,
        "pause": job.pause and pause_document(job.pause),
        "manifest": job.manifest,
    }


def pause_document(pause: Pause) -> dict[str, Any]:
    return {"at": instant(pause.at), "by": pause.by, "note": pause.note, "scope": pause.scope}


_FIRST: Final = ("key", "generation", "state", "due_at", "target", "handler", "payload")
_NAMES: Final = (*_FIRST, *(field.name for field in fields(Job) if field.name not in _FIRST))
_SHOWN: Final[dict[str, Callable[[Any], Any]]] = {
    "state": attrgetter("value"),
    "due_at": instant,
    "payload": json.loads,
    "retry": RetryPolicy.in_seconds,
    "expires_at": instant,
    "recurrence": json.loads,
    "first_set_at": instant,
    "pause": pause_document,
}
