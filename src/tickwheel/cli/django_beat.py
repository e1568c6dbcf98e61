"""
Reads the periodic tasks of django-celery-beat from its tables. This needs Celery, for the crontabs, but not Django.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tickwheel.cli import databases
from tickwheel.cli.celerybeat import request_of, rule_of, schedules_of_celery
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.takeover import CannotTakeOverError, Found, Notes, checked
from tickwheel.scheduler import SetRequest

__all__ = ["found_in_database"]

_PREFIX: Final = "django_celery_beat_"
_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_OPTIONS: Final = ("queue", "exchange", "routing_key", "priority")


def found_in_database(url: str, target: str) -> Iterator[Found]:
    schedules = schedules_of_celery()
    tables = {name: _rows(url, name) for name in ("periodictask", "crontabschedule", "intervalschedule")}
    tables["clockedschedule"] = _rows(url, "clockedschedule", has_to_exist=False)
    by_id = {name: {row["id"]: row for row in rows} for name, rows in tables.items()}
    for task in sorted(tables["periodictask"], key=lambda row: str(row["name"])):

        def make(notes: Notes, task: Mapping[str, Any] = task) -> SetRequest:
            rule = _rule(task, by_id, schedules, notes)
            return request_of(task["name"], _entry(task), rule, target, notes)

        yield checked(task["name"], make)


def _rows(url: str, name: str, *, has_to_exist: bool = True) -> list[Mapping[str, Any]]:
    sqlalchemy = databases.sqlalchemy()
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            table = sqlalchemy.Table(_PREFIX + name, sqlalchemy.MetaData(), autoload_with=engine)
            with engine.connect() as connection:
                return [dict(row) for row in connection.execute(sqlalchemy.select(table)).mappings()]
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchTableError:
        if not has_to_exist:
            return []
        message = f"there is no table {_PREFIX + name!r}: name the database of django-celery-beat, as SQLAlchemy does"
        raise Refused(ExitCode.NOT_FOUND, message) from None
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise Refused(ExitCode.USAGE, f"the tables of django-celery-beat cannot be read: {reason}") from None


def _rule(
    task: Mapping[str, Any], by_id: Mapping[str, Mapping[Any, Any]], schedules: Any, notes: Notes
) -> dict[str, Any]:
    if not task["enabled"]:
        raise CannotTakeOverError("it is disabled")
    if task.get("clocked_id") is not None:
        return {"at": _utc(by_id["clockedschedule"][task["clocked_id"]]["clocked_time"])}
    last = _utc(task.get("last_run_at"))
    if task["interval_id"] is not None:
        row = by_id["intervalschedule"][task["interval_id"]]
        rule = rule_of(timedelta(**{row["period"]: row["every"]}), last, None, notes)
    elif task["crontab_id"] is not None:
        row = by_id["crontabschedule"][task["crontab_id"]]
        crontab = schedules.crontab(**{name: row[name] for name in _FIELDS})
        rule = rule_of(crontab, last, str(row.get("timezone") or "UTC"), notes)
    else:
        raise CannotTakeOverError("its schedule is solar, and only intervals, crontabs and instants are read")
    if (start := _utc(task.get("start_time"))) is not None and start > datetime.now(UTC):
        rule["at"], notes.next_at = start, None
    if (until := _utc(task.get("expires"))) is not None:
        rule["until"] = until
    return rule | {"max_runs": 1} if task["one_off"] else rule


def _entry(task: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: task[name] for name in _OPTIONS if task.get(name) not in {None, ""}}
    if task.get("expire_seconds"):
        options["expires"] = task["expire_seconds"]
    if headers := json.loads(task.get("headers") or "{}"):
        options["headers"] = headers
    args, kwargs = json.loads(task["args"] or "[]"), json.loads(task["kwargs"] or "{}")
    return {"task": task["task"], "args": args, "kwargs": kwargs, "options": options}


def _utc(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)
