"""
Converts requests and answers to documents and back: the counterpart of `service.bodies` and `service.documents`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote

from tickwheel.calendar import Step
from tickwheel.calendar.zone import LOCAL, local_zone, zone_name
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import CHANGES_MAX, BulkAnswer, BulkChange, BulkFields
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declared, DeclaredJob
from tickwheel.jobs.explanation import Explanation, LaneState, WaitReason
from tickwheel.jobs.incidents import Incident, Incidents
from tickwheel.jobs.minutes import LaneMinute, Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Outcome, Pause, RetryPolicy, State
from tickwheel.jobs.recurring import exclusions, time_text
from tickwheel.jobs.requests import SetRequest
from tickwheel.jobs.retry import check_policy
from tickwheel.remote._errors import name_of
from tickwheel.typing import Duration, Instant

__all__ = [
    "address",
    "answer_of",
    "bulk_body",
    "bulk_of",
    "change_body",
    "declared_of",
    "epoch_seconds",
    "incidents_of",
    "job_of",
    "manifest_address",
    "minute_of",
    "ms",
    "pause_of",
    "record_of",
    "refusal_of",
    "seconds",
    "set_body",
    "stats_of",
    "to_json",
]

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MS: Final = timedelta(milliseconds=1)
_PAST_S: Final = -checks.FAR_MS / 1000
"""Minimum, in seconds, of times and delays in requests. Lower values are raised to it."""
_TEXT: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)

_REFUSALS: Final = {
    "job_not_found": Outcome.NOT_FOUND,
    "too_late": Outcome.TOO_LATE,
    "wrong_generation": Outcome.WRONG_GENERATION,
}
"""Names of problem documents that count as answers to a write, not as errors."""

_INSTANTS: Final = frozenset({"at", "fired_at", "next_due_at", "now", "oldest_due_at", "since", "started_at"})
"""The fields of the stats, and of a node's figures, that are instants."""


def to_json(document: Mapping[str, Any], payload: bytes | None = None) -> bytes:
    text = _TEXT.encode(document).encode()
    return text if payload is None else b'%b%b"payload":%b}' % (text[:-1], b"," if document else b"", payload)


def seconds(name: str, value: Duration) -> float:
    return max(checks.seconds(name, value), _PAST_S)


def epoch_seconds(name: str, at: Instant) -> float:
    return max(checks.epoch_seconds(name, at), _PAST_S)


def address(key: str, action: str = "") -> str:
    # dots are escaped, because they could be read as folders
    quoted = quote(key, safe="")
    return f"/v1/jobs/{quoted if quoted.strip('.') else quoted.replace('.', '%2E')}{action}"


def manifest_address(name: str) -> str:
    return f"/v1/manifests/{quote(name, safe='').replace('.', '%2E')}"


def ms(text: str) -> int:
    return (datetime.fromisoformat(text) - _EPOCH) // _MS


def set_body(request: SetRequest) -> dict[str, Any]:
    body: dict[str, Any] = {"target": request.target, "mode": str(request.mode)}
    for name in ("delay", "every", "expires", "max_wait", "misfire_grace"):
        value = getattr(request, name)
        if value is not None:
            body[name] = value if name == "every" and _is_step(value) else seconds(name, value)
    for name in ("at", "until"):
        if getattr(request, name) is not None:
            body[name] = epoch_seconds(name, getattr(request, name))
    for name in (
        "handler",
        "cron",
        "trace",
        "max_runs",
        "pause_after",
        "overlap",
        "manifest",
        "day_match",
        "dst_gap",
        "dst_overlap",
    ):
        if getattr(request, name) is not None:
            body[name] = getattr(request, name)
    if request.time is not None:
        body["time"] = time_text(request.time)
    if request.every is not None or request.cron is not None:
        body |= {
            "tz": zone_name(request.tz),
            "misfire": str(request.misfire),
            "jitter": seconds("jitter", request.jitter),
        }
        body["exclude"] = [str(each) for each in request.exclude]
    if request.keep_payload:
        body["keep_payload"] = True
    return body


def _is_step(every: Duration) -> bool:
    return isinstance(every, str) and Step.of(every) is not None


def bulk_body(verb: str, prefix: str, fields: BulkFields) -> dict[str, Any]:
    body: dict[str, Any] = {"do": verb, "prefix": prefix}
    for name, value in fields.items():
        if value is None or name in {"by", "limit"}:
            continue
        if name in {"shift", "over"}:
            body[name] = seconds(name, value)  # type: ignore[arg-type]  # they were checked
        elif name in {"since", "due_from", "due_until"}:
            body[name] = epoch_seconds(name, value)  # type: ignore[arg-type]  # as above
        else:
            body[name] = value
    return body


def change_body(fields: ChangeFields, now: int) -> bytes:
    body: dict[str, Any] = {name: value for name, value in fields.items() if name != "payload"}
    for name in {"expires", "every", "misfire_grace"} & body.keys():
        if body[name] is not None and not (name == "every" and _is_step(body[name])):
            checks.span_ms(name, body[name])
            body[name] = seconds(name, body[name])
    if body.get("time") is not None:
        body["time"] = time_text(body["time"])
    if body.get("tz") == LOCAL:
        body["tz"] = local_zone()
    if "jitter" in body:
        checks.delay_ms(body["jitter"], "jitter")
        body["jitter"] = seconds("jitter", body["jitter"])
    if body.get("until") is not None:
        checks.at_ms(body["until"], now, "until")
        body["until"] = epoch_seconds("until", body["until"])
    if body.get("retry") is not None:
        body["retry"] = check_policy(body["retry"]).in_seconds()
    if "exclude" in body:
        body["exclude"] = [str(each) for each in exclusions(body["exclude"], "UTC")]
    return to_json(body, checks.encode_payload(fields["payload"]) if "payload" in fields else None)


def bulk_of(document: Mapping[str, Any], so_far: BulkAnswer | None) -> BulkAnswer:
    names = ("matched", "changed", "refused", "cursor", "start", "stopping")
    changes = (BulkChange(each["key"], each["generation"], ms(each["was_due_at"])) for each in document["changes"])
    answer = BulkAnswer(**{name: document[name] for name in names}, changes=tuple(changes))
    if so_far is None:
        return answer
    return BulkAnswer(
        so_far.matched + answer.matched,
        so_far.changed + answer.changed,
        so_far.refused + answer.refused,
        answer.cursor,
        so_far.start,
        so_far.stopping + answer.stopping,
        (*so_far.changes, *answer.changes)[:CHANGES_MAX],
    )


def job_of(document: Mapping[str, Any]) -> Job:
    found = {}
    for field in fields(Job):
        name = field.name
        if name in document or field.default is MISSING is field.default_factory:  # a KeyError names the missing field
            value, read = document[name], _READ.get(name)
            found[name] = value if read is None or (value is None and name != "payload") else read(value)
    return Job(**found)


def _retry_of(retry: Mapping[str, Any]) -> RetryPolicy:
    return RetryPolicy(
        retry["attempts"],
        retry["kind"],
        round(retry["base_s"] * 1000),
        round(retry["max_s"] * 1000),
        retry["jitter"],
        tuple(round(wait * 1000) for wait in retry["waits_s"]),
    )


def pause_of(document: Mapping[str, Any]) -> Pause:
    return Pause(ms(document["at"]), document["by"], document["note"], document.get("scope", ""))


def record_of(document: Mapping[str, Any]) -> HistoryRecord:
    due_at, lateness_ms = ms(document["due_at"]), document["lateness_ms"]
    return HistoryRecord(
        number=document["number"],
        at=ms(document["at"]),
        key=document["key"],
        generation=document["generation"],
        attempt=document["attempt"],
        outcome=document["outcome"],
        by=document["by"],
        target=document["target"],
        handler=document["handler"],
        due_at=due_at,
        begun_at=None if lateness_ms is None else due_at + lateness_ms,
        took_ms=document["took_ms"],
        error=document["error"],
        traceback=document["traceback"],
        trace=document["trace"],
        note=document.get("note"),
        nominal_at=None if document.get("nominal_at") is None else ms(document["nominal_at"]),
        was_due_at=None if document.get("was_due_at") is None else ms(document["was_due_at"]),
        bulk=document.get("bulk"),
    )


def explanation_of(document: Mapping[str, Any]) -> Explanation:
    state = document["state"]
    return Explanation(
        key=document["key"],
        reason=WaitReason(document["reason"]),
        lane=document["lane"],
        text=document["text"],
        remedy=document["remedy"],
        until=None if document["until"] is None else ms(document["until"]),
        owner=document["owner"],
        state=None if state is None else _lane_of(stats_of(state)),
    )


def _lane_of(state: Mapping[str, Any]) -> LaneState:
    reason = state["reason"]
    return LaneState(**{**state, "reason": None if reason is None else WaitReason(reason)})


def incidents_of(document: Mapping[str, Any]) -> Incidents:
    return Incidents(
        tuple(
            Incident(
                fingerprint=each["fingerprint"],
                error=each["error"],
                example=each["example"],
                count=each["count"],
                errors=each["errors"],
                first_at=ms(each["first_at"]),
                last_at=ms(each["last_at"]),
                by_hour=tuple(each["by_hour"]),
                places=tuple((place["target"], place["handler"], place["count"]) for place in each["places"]),
                keys=tuple(each["keys"]),
                raised_in=each.get("raised_in"),
            )
            for each in document["incidents"]
        ),
        document["looked_at"],
        document["is_all"],
    )


def minute_of(document: Mapping[str, Any]) -> Minute:
    return Minute(
        document["node"],
        ms(document["at"]),
        document["span_s"] * 1000,
        document["commits"],
        document["commit_ms"],
        document["commit_max_ms"],
        tuple(LaneMinute(**{**lane, "lateness": tuple(lane["lateness"])}) for lane in document["lanes"]),
    )


def stats_of(document: Any) -> Any:
    if isinstance(document, list):
        return [stats_of(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: ms(each) if _is_instant(name, each) else stats_of(each) for name, each in document.items()}


def _is_instant(name: str, value: object) -> bool:
    return name in _INSTANTS and isinstance(value, str)  # a queue may have the same name


def answer_of(document: Mapping[str, Any]) -> Answer:
    job = document.get("job")
    return Answer(Outcome(document["outcome"]), None if job is None else job_of(job))


def declared_of(document: Mapping[str, Any]) -> Declared:
    return Declared(
        document["manifest"],
        Outcome(document["outcome"]),
        document["revision"],
        tuple(
            DeclaredJob(
                each["key"],
                Outcome(each["outcome"]),
                *(None if each[name] is None else job_of(each[name]) for name in ("job", "before")),
            )
            for each in document["jobs"]
        ),
    )


def refusal_of(problem: Mapping[str, Any]) -> Answer | None:
    outcome = _REFUSALS.get(name_of(dict(problem)))
    job = problem.get("job")
    return None if outcome is None else Answer(outcome, None if job is None else job_of(job))


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "due_at": ms,
    "payload": checks.encode_payload,
    "retry": _retry_of,
    "expires_at": ms,
    "recurrence": _TEXT.encode,
    "state": State,
    "first_set_at": ms,
    "pause": pause_of,
}
"""Converters of the fields of a job."""
