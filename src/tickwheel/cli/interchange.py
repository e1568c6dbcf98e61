"""
Jobs as lines: the output of `export`, and the input of `import jsonl` and `import csv`.

A line has the fields of `set`, and the key, so an import of an export makes equal jobs. The line of a paused job also
has `pause`, and the line of a dead letter has `state` and `error`.
"""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from tickwheel.calendar.zone import check_zone, zone_of
from tickwheel.cli.values import epoch_seconds
from tickwheel.jobs import columns
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import STOPPED, State
from tickwheel.jobs.recurrence import Dates, Interval, Recurrence
from tickwheel.scheduler import Job, RetryPolicy, SetRequest

__all__ = ["Imported", "csv_lines", "exported", "imported", "json_lines", "request_of"]

_FIELDS: Final = frozenset(field.name for field in fields(SetRequest))
_RETRY: Final = frozenset(field.name for field in fields(RetryPolicy))
_AS_THEY_ARE: Final = [name for name in columns.DEFAULTS if name in _FIELDS and name != "retry"]
"""Columns that are also arguments of `set`, with the same name and value."""
_BESIDE: Final = frozenset({"state", "pause", "error", "raised_in"})
"""The fields of a line that are not fields of `set`."""
_NUMBERS: Final = frozenset({"delay", "every", "expires", "max_wait", "jitter", "misfire_grace"})
_COUNTS: Final = frozenset({"max_runs", "pause_after", "attempts"})
_JSON: Final = frozenset({"payload", "retry", "pause"})
"""The columns whose cells are JSON, or plain text if they are not valid JSON."""
_IN_MS: Final = {"misfire_grace": "grace_ms", "expires": "expires_ms"}  # the columns are in ms

_AS_IN_RULE: Final = (
    "cron",
    "day_match",
    "dst_gap",
    "dst_overlap",
    "every",
    "exclude",
    "max_runs",
    "overlap",
    "pause_after",
    "time",
    "tz",
)
"""Fields that have the same name in a line of the file and in a rule."""

Line = tuple[int, dict[str, Any]]


class Imported(NamedTuple):
    """
    The contents of a line.

    *request* is for `set`. *pause* is the note of the pause, or None. A dead letter (*is_dead*) is not set.
    """

    number: int
    request: SetRequest
    pause: str | None = None
    is_dead: bool = False

    def check_declared(self) -> None:
        for name, value in (("pause", self.pause), ("state", "dead" if self.is_dead else None)):
            if value is not None:
                raise InvalidJobError(name, value, "a manifest has none: import the line without --manifest")


def exported(job: Job) -> dict[str, Any]:
    retry = job.retry
    line: dict[str, Any] = {
        "key": job.key,
        "at": _instant(job.due_at),
        "target": job.target,
        "handler": job.handler,
        "payload": json.loads(job.payload),
        "retry": {field.name: getattr(retry, field.name) for field in fields(retry)},
    }
    if job.expires_at not in (None, STOPPED):
        length = job.expires_at - job.due_at if job.recurrence is None else Definition.of(job).expires_ms
        line["expires"] = max(1, length or 0) / 1000  # at least 1 ms, because a retry may be due after it expires
    line |= {name: value for name in _AS_THEY_ARE if (value := getattr(job, name)) != columns.DEFAULTS[name]}
    if job.recurrence is not None:
        del line["at"]  # the rule determines the due time
        line |= _recurring(job, job.recurrence)
    if job.pause is not None:
        line["pause"] = {"by": job.pause.by, "note": job.pause.note}
    if job.state is State.DEAD:
        line |= {"state": State.DEAD.value, "error": job.error}
        line |= {} if job.raised_in is None else {"raised_in": job.raised_in}
    return line


def _recurring(job: Job, text: str) -> dict[str, Any]:
    rule = json.loads(text)
    line = {"misfire": rule["misfire"], "jitter": rule["jitter_ms"] / 1000}
    series = Recurrence.from_text(text)
    nominal = max(job.due_at, series.next_at or 0) - series.shift_ms(job.key)
    line |= {name: rule[name] for name in _AS_IN_RULE if name in rule}
    if isinstance(series.rule, Dates):
        is_whole = series.rule.step.days or series.rule.date_of(nominal).day == series.rule.anchor_on.day
        line["at"] = _instant(nominal if is_whole else series.rule.starts_at)  # a run in a short month has another day
    elif "cron" in rule:
        if nominal > time.time() * 1000:  # a future start, or past runs that were skipped
            line["at"] = _instant(nominal)
    else:
        next_at = Interval(rule["every_ms"], rule["anchor_at"]).next(nominal - 1)  # not the anchor, which has passed
        line |= {"every": rule["every_ms"] / 1000, "at": _instant(next_at)}
    for name, of_rule in _IN_MS.items():
        if of_rule in rule:
            line[name] = rule[of_rule] / 1000
    if "until" in rule:
        line["until"] = _instant(rule["until"])
    return line


def imported(number: int, line: dict[str, Any]) -> Imported:
    state, pause = line.get("state"), line.get("pause")
    if state not in (None, *(each.value for each in State)):
        raise InvalidJobError("state", state, "write pending or dead, or leave it out")
    note = pause.get("note", "") if isinstance(pause, dict) else pause
    if not isinstance(note, str | None):
        raise InvalidJobError("pause", pause, 'write its note, or {"note": ...}')
    request = request_of({name: value for name, value in line.items() if name not in _BESIDE})
    return Imported(number, request, note, state == State.DEAD.value)


def request_of(line: dict[str, Any]) -> SetRequest:
    _check_names(line, "field")
    if "key" not in line:
        raise InvalidJobError("key", None, "each line needs one")
    request = dict(line)
    zone = None if request.get("tz") is None else _zone(request["tz"])
    moments = [name for name in ("at", "until") if isinstance(request.get(name), str)]
    for name in moments:
        request[name] = _moment(name, request[name], zone)
    if zone is not None and request.get("every") is None and request.get("cron") is None:
        if not any(getattr(request[name], "tzinfo", None) is zone for name in moments):
            raise InvalidJobError("tz", request["tz"], "it is the zone of nothing here: leave it out")
        del request["tz"]  # the instant contains it
    if isinstance(request.get("retry"), dict):
        request["retry"] = _policy(request["retry"])
    return SetRequest(**request)


def _policy(values: dict[str, Any]) -> RetryPolicy:
    if values.keys() - _RETRY:
        raise InvalidJobError("retry", values, f"its fields are {', '.join(sorted(_RETRY))}")
    waits = values.get("waits_ms", ())
    return RetryPolicy(**values | {"waits_ms": tuple(waits) if isinstance(waits, list) else waits})


def json_lines(lines: Iterable[str]) -> Iterator[Line]:
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        where = f"line {number}"
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidJobError(where, text, "it is not JSON") from None
        if not isinstance(line, dict):
            raise InvalidJobError(where, text, "it is not a JSON object")
        yield number, line


def csv_lines(lines: Iterable[str]) -> Iterator[Line]:
    """
    Yield the rows of a CSV table as lines. The column `attempts` is a field of `retry`. Empty cells are left out.
    """
    reader = csv.DictReader(lines, strict=True)
    try:
        _check_names(filter(None, reader.fieldnames or ()), "line 1: column", {*_FIELDS, *_BESIDE, "attempts"})
        for row in reader:
            where = f"line {reader.line_num}"
            if None in row:
                raise InvalidJobError(where, row[None], "it has more cells than the first line")
            yield (
                reader.line_num,
                _with_attempts({name: _cell(name, text) for name, text in row.items() if text}, where),
            )
    except csv.Error as error:
        where = f"line {reader.line_num + 1}"  # `line_num` is the last line that was read
        raise InvalidJobError(where, str(error), "mend its quotes") from None


def _check_names(names: Iterable[str], what: str, known: Collection[str] = _FIELDS) -> None:
    for name in names:
        if name not in known:
            kind = what.rpartition(" ")[2]
            raise InvalidJobError(what, name, f"the {kind}s are {', '.join(sorted(known))}")


def _with_attempts(line: dict[str, Any], where: str) -> dict[str, Any]:
    if "attempts" in line:
        attempts, retry = line.pop("attempts"), line.get("retry", {})
        if not isinstance(retry, dict):
            what = f"{where}: retry"
            raise InvalidJobError(what, retry, "write JSON, or leave it out beside attempts")
        line["retry"] = {**retry, "attempts": attempts}
    return line


def _cell(name: str, text: str) -> Any:
    if name in _JSON:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text  # plain text needs no quotes
    if name in _NUMBERS:
        try:
            return float(text)
        except ValueError:
            return text  # a duration with a unit; text without a unit is refused with the job
    if name in _COUNTS and text.isdecimal():
        return int(text)
    return text


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _zone(tz: object) -> ZoneInfo:
    if not isinstance(tz, str):
        raise InvalidJobError("tz", tz, "pass the name of a zone, such as 'Europe/Berlin'")
    return zone_of(check_zone(tz))


def _moment(name: str, text: str, zone: ZoneInfo | None) -> datetime | float:
    try:
        seconds = epoch_seconds(text)
    except ValueError as error:
        raise InvalidJobError(name, text, str(error)) from None
    if seconds is not None:
        return seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidJobError(name, text, "write ISO 8601 with an offset, or seconds since the epoch") from None
    return moment if zone is None or moment.tzinfo is not None else moment.replace(tzinfo=zone)
