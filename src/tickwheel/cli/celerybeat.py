from __future__ import annotations

import dbm
import importlib
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tickwheel.calendar import Cron, DayMatch
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.modules import imported
from tickwheel.cli.pickles import Foreign, load
from tickwheel.cli.takeover import CannotTakeOverError, Found, Notes, checked, readable
from tickwheel.errors import MissingExtraError
from tickwheel.scheduler import SetRequest

__all__ = [
    "crontab_of",
    "found_in_file",
    "found_in_settings",
    "is_file",
    "request_of",
    "rule_of",
    "schedules_of_celery",
]

_NAMES: Final = ("beat_schedule", "CELERY_BEAT_SCHEDULE", "CELERYBEAT_SCHEDULE")
_ZONES: Final = ("timezone", "CELERY_TIMEZONE", "TIME_ZONE")
_UTC: Final = ("enable_utc", "CELERY_ENABLE_UTC")
_SIZES: Final = {"minute": 60, "hour": 24, "day_of_month": 31, "month_of_year": 12, "day_of_week": 7}
"""Number of values of each field of a crontab, in the order of a cron line."""
_CLEANUP: Final = "celery.backend_cleanup"
_KEPT: Final = ("entries", "tz", "utc_enabled")
_ENTRY: Final = ("name", "task", "last_run_at", "total_run_count", "schedule", "args", "kwargs", "options")


def found_in_settings(name: str, tz: str | None, target: str) -> Iterator[Found]:
    module, _, attribute = name.partition(":")
    schedules_of_celery()
    settings: Any = imported(module, "SOURCE")
    for part in filter(None, attribute.split(".")):
        settings = getattr(settings, part, None)
    settings = getattr(settings, "conf", settings)
    entries = next((found for each in _NAMES if (found := getattr(settings, each, None)) is not None), None)
    if not isinstance(entries, Mapping):
        remedy = f"name a module with {', '.join(_NAMES)}, or MODULE:APP with a Celery application"
        raise Refused(ExitCode.USAGE, f"SOURCE {name!r} has no schedule: {remedy}")
    zone = tz or next((found for each in _ZONES if (found := getattr(settings, each, None))), None)
    is_utc = all(getattr(settings, each, True) for each in _UTC)
    for key, entry in entries.items():
        yield _found(str(key), dict(entry), _zone(zone, is_utc=is_utc), target)


def found_in_file(path: str, tz: str | None, target: str) -> Iterator[Found]:
    schedules = schedules_of_celery()
    known = {("celery.schedules", name): getattr(schedules, name) for name in ("schedule", "crontab")}
    try:
        with dbm.open(path) as file:
            values = {name: load(file[name.encode()], known) for name in _KEPT if name.encode() in file}
    except (*dbm.error, ValueError) as error:
        message = f"{path!r} cannot be read ({error}): name the file that beat keeps, without .db and the like"
        raise Refused(ExitCode.USAGE, message) from None
    zone = _zone(tz or values.get("tz"), is_utc=values.get("utc_enabled", True))
    for key, entry in values.get("entries", {}).items():
        yield _found(str(key), dict(zip(_ENTRY, entry.arguments, strict=False)), zone, target)


def is_file(source: str) -> bool:
    return any(Path(f"{source}{suffix}").is_file() for suffix in ("", ".db", ".dat"))


def schedules_of_celery() -> Any:
    try:
        return importlib.import_module("celery.schedules")
    except ImportError:
        raise MissingExtraError("celery", "celery") from None


def _zone(zone: object, *, is_utc: bool) -> str | None:
    return str(zone) if zone else "UTC" if is_utc else None


def _found(name: str, entry: Mapping[str, Any], tz: str | None, target: str) -> Found:
    def make(notes: Notes) -> SetRequest:
        return request_of(name, entry, rule_of(entry["schedule"], entry.get("last_run_at"), tz, notes), target, notes)

    return checked(name, make)


def request_of(name: str, entry: Mapping[str, Any], rule: Mapping[str, Any], target: str, notes: Notes) -> SetRequest:
    payload = {"args": list(entry.get("args") or ()), "kwargs": dict(entry.get("kwargs") or {})}
    further = dict(entry.get("options") or {})
    if further:
        payload["options"] = further
    if entry["task"] == _CLEANUP:
        notes.remarks.append("it is a task of Celery's own, for which beat adds an entry: it goes to its workers")
    return SetRequest(name, target=target, handler=entry["task"], payload=readable(payload), **rule)


def rule_of(schedule: Any, last: datetime | None, tz: str | None, notes: Notes) -> dict[str, Any]:
    """
    Return the fields of an entry's rule. If a run after the *last* run was missed, the job is due at once.
    """
    if isinstance(schedule, int | float):
        schedule = timedelta(seconds=schedule)
    if isinstance(schedule, Foreign):
        reason = f"its schedule is a {schedule.path}, and only intervals and crontabs are read"
        raise CannotTakeOverError(reason)
    every = schedule if isinstance(schedule, timedelta) else getattr(schedule, "run_every", None)
    if isinstance(every, timedelta) and not hasattr(schedule, "month_of_year"):
        if getattr(schedule, "relative", False):
            notes.remarks.append(
                "relative=True: its runs are not rounded to whole seconds, minutes, hours or days here"
            )
        return {"every": every} if last is None or last.tzinfo is None else {"every": every, "at": last + every}
    if not all(hasattr(schedule, field) for field in _SIZES):
        reason = f"its schedule is a {type(schedule).__qualname__}, and only intervals and crontabs are read"
        raise CannotTakeOverError(reason)
    if tz is None:
        reason = "its crontab is in the local time of where beat ran, as enable_utc is off: name that zone with --tz"
        raise CannotTakeOverError(reason)
    fields = crontab_of(schedule, tz)
    if last is not None and last.tzinfo is not None:
        cron = Cron.parse(fields["cron"], tz, DayMatch(fields.get("day_match", DayMatch.EITHER)))
        owed = cron.next(int(last.timestamp() * 1000))
        if owed is not None and owed <= time.time() * 1000:
            notes.next_at = datetime.fromtimestamp(owed / 1000, UTC)
    return fields


def crontab_of(crontab: Any, tz: str) -> dict[str, str]:
    parts = {
        field: "*" if len(values) == size else ",".join(map(str, sorted(values)))
        for field, size in _SIZES.items()
        for values in [getattr(crontab, field)]
    }
    fields = {"cron": " ".join(parts.values()), "tz": tz}
    if tz != "UTC":
        fields["dst_overlap"] = "first"
    if parts["day_of_month"] != "*" and parts["day_of_week"] != "*":
        fields["day_match"] = "both"
    return fields
