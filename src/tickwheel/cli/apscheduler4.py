"""
Reads the schedules of APScheduler 4.0.0a6 from its tables, as pickles or JSON. No code of the pickles is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tickwheel.cli.cron_fields import cron_of, day_names
from tickwheel.cli.pickles import Foreign, load
from tickwheel.cli.takeover import CannotTakeOverError, Notes, readable, start_of_calendar, start_of_interval
from tickwheel.scheduler import SetRequest

__all__ = ["request_of"]

_FIELDS: Final = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_NTH: Final = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "L"}
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds", "microseconds")
_JSON: Final = "_apscheduler_json"
_VERSION: Final = 1


def request_of(row: Mapping[str, Any], function: str | None, target: str, notes: Notes) -> SetRequest:
    """
    Convert *row* to a request. Record changes, and the time of the next run, in *notes*.
    """
    if row["paused"]:
        raise CannotTakeOverError("it is paused")
    if function is None:
        reason = f"its task {row['task_id']!r} names no function"
        raise CannotTakeOverError(reason)
    due = _instant(row["next_fire_time"])
    if due is None:
        raise CannotTakeOverError("it has no next run")
    kind, state = _trigger(row["trigger"])
    read = _TRIGGERS.get(kind)
    if read is None or state.get("version") != _VERSION:
        reason = f"its trigger is a {kind}, and only those of one date, interval or cron are read"
        raise CannotTakeOverError(reason)
    payload = readable({"args": list(_value(row["args"])), "kwargs": _value(row["kwargs"])})
    request = SetRequest(row["id"], target=target, handler=function, payload=payload)
    grace = _span(row["misfire_grace_time"])
    if kind == "DateTrigger" and grace is not None and datetime.now(UTC) - due > grace:
        reason = f"its run of {due.isoformat()} was missed, by more than its grace time"
        raise CannotTakeOverError(reason)
    for name, value in read(state, due, grace, notes).items():
        setattr(request, name, value)
    _misfires(request, row, notes.remarks)
    if request.misfire == "all" and due < datetime.now(UTC):
        notes.remarks.append("of the runs that it missed one is made, and not each")
    return request


def _misfires(request: SetRequest, row: Mapping[str, Any], remarks: list[str]) -> None:
    grace, jitter = _span(row["misfire_grace_time"]), _span(row["max_jitter"])
    if request.every is None and request.cron is None:
        request.expires = grace or None
        return
    if grace is not None:
        request.misfire, request.misfire_grace = "skip", max(timedelta(seconds=1), grace)
    else:
        request.misfire = "all" if row["coalesce"] == "all" else "once"
    if jitter:
        remarks.append(f"its jitter of {jitter.total_seconds():g} s is the same at each run of a key")
        request.jitter = jitter


def _date(_state: Mapping[str, Any], due: datetime, _grace: timedelta | None, _notes: Notes) -> dict[str, Any]:
    return {"at": due}


def _interval(state: Mapping[str, Any], due: datetime, grace: timedelta | None, _notes: Notes) -> dict[str, Any]:
    every = timedelta(**dict(zip(_UNITS, state["interval"], strict=True)))
    return {"every": every, "at": start_of_interval(due, every, grace), "until": state["end_time"]}


def _cron(state: Mapping[str, Any], due: datetime, grace: timedelta | None, notes: Notes) -> dict[str, Any]:
    fields = dict(zip(_FIELDS, state["fields"], strict=True))
    parts = {name: ",".join(_expression(each, name) for each in text.split(",")) for name, text in fields.items()}
    zone = state["timezone"]
    start = start_of_calendar(due, grace, timedelta(), notes)
    return {**cron_of(parts), "tz": getattr(zone, "key", None) or str(zone), "until": state["end_time"], "at": start}


def _expression(text: str, field: str) -> str:
    nth, _, day = text.partition(" ")
    if day:
        return day.upper() + _NTH[nth]
    if field == "day_of_week" and text.startswith("*/"):
        return day_names(0, 6, int(text[2:]))
    return "L" if text == "last" else text.upper()


def _trigger(data: bytes) -> tuple[str, Mapping[str, Any]]:
    value = _value(data)
    if isinstance(value, Foreign):
        return value.kind, value.fields
    if isinstance(value, dict) and _JSON in value:
        reference, state = value[_JSON]
        return reference.rpartition(":")[2], state
    raise CannotTakeOverError("its trigger is none of APScheduler's")


def _value(data: bytes) -> Any:
    if data[:1] == b"\x80" and data[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}:  # a pickle, not APScheduler's CBOR
        return load(data)
    try:
        return json.loads(data)
    except ValueError:
        reason = "it is neither pickled nor JSON: APScheduler's CBORSerializer is not read"
        raise CannotTakeOverError(reason) from None


def _instant(value: int | datetime | None) -> datetime | None:
    if isinstance(value, int):
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=value)
    return value


def _span(value: float | timedelta | None) -> timedelta | None:
    return timedelta(microseconds=value) if isinstance(value, int | float) else value


_TRIGGERS: Final[Mapping[str, Callable[[Mapping[str, Any], datetime, timedelta | None, Notes], dict[str, Any]]]] = {
    "DateTrigger": _date,
    "IntervalTrigger": _interval,
    "CronTrigger": _cron,
}
