"""
Reads the jobs of APScheduler 3 or 4. No code of the pickles is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from tickwheel.cli import apscheduler4, databases
from tickwheel.cli.cron_fields import DAYS, cron_of, day_names
from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.pickles import Foreign, load
from tickwheel.cli.takeover import (
    CannotTakeOverError,
    Found,
    Notes,
    checked,
    readable,
    start_of_calendar,
    start_of_interval,
)
from tickwheel.scheduler import SetRequest

__all__ = ["found_in"]

_NTH: Final = ("#1", "#2", "#3", "#4", "#5", "L")
_MODULES: Final = "apscheduler.triggers."
_TABLES: Final = ("apscheduler_jobs", "schedules")
_REDIS: Final = ("redis://", "rediss://", "unix://")
_REDIS_KEY: Final = "apscheduler.jobs"


class _Rows(NamedTuple):
    rows: Sequence[Any]
    functions: Mapping[str, str | None] | None = None


def found_in(url: str, table: str | None, target: str) -> Iterator[Found]:
    """
    Yield the jobs of a store of APScheduler, in the order of their ids.

    *url* is a URL of SQLAlchemy or Redis. Without *table*, the default table of version 3 is read; if it is missing,
    the default table of version 4.
    """
    rows, functions = _rows_of_redis(url, table or _REDIS_KEY) if url.startswith(_REDIS) else _rows(url, table)
    for row in rows:

        def make(notes: Notes, row: Mapping[str, Any] = row) -> SetRequest:
            if functions is None:
                return _request(row, target, notes)
            return apscheduler4.request_of(row, functions.get(row["task_id"]), target, notes)

        yield checked(row["id"], make)


def _rows(url: str, table: str | None) -> _Rows:
    sqlalchemy = databases.sqlalchemy()
    name = table or _TABLES[0]
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            there = set() if table else set(sqlalchemy.inspect(engine).get_table_names())
            name = table or next((each for each in _TABLES if each in there), name)
            schema = sqlalchemy.MetaData()
            jobs = sqlalchemy.Table(name, schema, autoload_with=engine)
            with engine.connect() as connection:
                rows = connection.execute(sqlalchemy.select(jobs).order_by(jobs.c.id)).mappings().all()
                if "trigger" not in jobs.c:
                    return _Rows(rows)
                tasks = sqlalchemy.Table("tasks", schema, autoload_with=engine)
                functions = connection.execute(sqlalchemy.select(tasks.c.id, tasks.c.func))
                return _Rows(rows, {each.id: each.func for each in functions})
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchTableError:
        message = f"there is no table {name!r}: name it with --table, and the database as SQLAlchemy does"
        raise Refused(ExitCode.NOT_FOUND, message) from None
    except (sqlalchemy.exc.SQLAlchemyError, AttributeError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise Refused(ExitCode.USAGE, f"the jobs of APScheduler cannot be read: {reason}") from None


def _rows_of_redis(url: str, key: str) -> _Rows:
    try:
        import redis  # noqa: PLC0415  on use: the extra is optional
    except ImportError:
        raise Refused(ExitCode.MISSING_EXTRA, "redis is not installed: pip install 'tickwheel[redis]'") from None
    try:
        with redis.Redis.from_url(url) as client:
            jobs: dict[bytes, bytes] = client.hgetall(key)
    except (redis.RedisError, ValueError) as error:
        raise Refused(ExitCode.USAGE, f"the jobs of APScheduler cannot be read: {error}") from None
    if not jobs:
        raise Refused(ExitCode.NOT_FOUND, f"there is no key {key!r}: name it with --table")
    return _Rows([{"id": name.decode(), "job_state": state} for name, state in sorted(jobs.items())])


def _request(row: Mapping[str, Any], target: str, notes: Notes) -> SetRequest:
    state = load(row["job_state"])
    if not isinstance(state, dict) or not {"func", "trigger", "args", "kwargs", "next_run_time"} <= state.keys():
        raise CannotTakeOverError("it is not a job of APScheduler 3")
    if state["next_run_time"] is None:
        raise CannotTakeOverError("it is paused")
    payload = readable({"args": list(state["args"]), "kwargs": dict(state["kwargs"])})
    if state.get("max_instances", 1) != 1:
        notes.remarks.append(f"up to {state['max_instances']} runs at a time: a job here waits for its last run to end")
    request = SetRequest(row["id"], target=target, handler=state["func"], payload=payload)
    trigger = state["trigger"]
    kind = trigger.path if isinstance(trigger, Foreign) else type(trigger).__qualname__
    read = _TRIGGERS.get(kind.removeprefix(_MODULES))
    if read is None:
        reason = f"its trigger is a {kind.rpartition('.')[2]}, and only those of one date, interval or cron are read"
        raise CannotTakeOverError(reason)
    grace = state.get("misfire_grace_time")
    due = _Due(state["next_run_time"], None if grace is None else timedelta(seconds=grace))
    for field, value in read(trigger.fields, due, notes).items():
        setattr(request, field, value)
    _misfires(request, state)
    if request.misfire == "all" and due.at < datetime.now(UTC):
        notes.remarks.append("of the runs that it missed one is made, and not each")
    return request


def _misfires(request: SetRequest, state: Mapping[str, Any]) -> None:
    grace = state.get("misfire_grace_time")
    if request.every is None and request.cron is None:
        request.expires = grace
    elif grace is not None:
        request.misfire, request.misfire_grace = "skip", max(1, grace)
    else:
        request.misfire = "once" if state.get("coalesce", True) else "all"


class _Due(NamedTuple):
    at: datetime
    grace: timedelta | None


def _date(_fields: Mapping[str, Any], due: _Due, _notes: Notes) -> dict[str, Any]:
    if due.grace is not None and datetime.now(UTC) - due.at > due.grace:
        reason = f"its run of {due.at.isoformat()} was missed, by more than its grace time"
        raise CannotTakeOverError(reason)
    return {"at": due.at}


def _interval(fields: Mapping[str, Any], due: _Due, notes: Notes) -> dict[str, Any]:
    every = fields["interval"]  # counted from the previous run, not from start_date, because runs may have been moved
    return {"every": every, "at": start_of_interval(due.at, every, due.grace), **_common(fields, notes)}


def _cron(fields: Mapping[str, Any], due: _Due, notes: Notes) -> dict[str, Any]:
    parts = {each.fields["name"]: _field(each) for each in fields["fields"]}
    zone = getattr(fields["timezone"], "key", None) or str(fields["timezone"])
    spread = timedelta(seconds=fields.get("jitter") or 0)
    start = start_of_calendar(due.at, due.grace, spread, notes)
    made = {**cron_of(parts), "tz": zone, "at": start, **_common(fields, notes)}
    return made if zone == "UTC" else {**made, "dst_overlap": "both"}


def _common(fields: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    jitter = fields.get("jitter") or 0
    if jitter:
        notes.remarks.append(f"its jitter of {jitter} s is the same at each run of a key, and never earlier")
    return {"jitter": jitter, "until": fields.get("end_date")}


def _field(field: Foreign) -> str:
    return ",".join(_expression(each, field.fields["name"]) for each in field.fields["expressions"])


def _expression(expression: Foreign, field: str) -> str:
    values, kind = expression.fields, expression.kind
    step = f"/{values['step']}" if values.get("step") else ""
    if kind == "AllExpression":
        return day_names(0, 6, values["step"]) if step and field == "day_of_week" else f"*{step}"
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "WeekdayPositionExpression":
        nth = _NTH[values["option_num"]]
        return f"{DAYS[values['weekday']]}{nth}"
    first, last = values["first"], values["last"]
    if field == "day_of_week":  # numbers differ (Monday is 0 there and 1 here), but names are the same
        last = (6 if step else first) if last is None else last
        return day_names(first, last, values.get("step") or 1)
    return f"{first}{step}" if last in (None, first) else f"{first}-{last}{step}"


_TRIGGERS: Final = {"date.DateTrigger": _date, "interval.IntervalTrigger": _interval, "cron.CronTrigger": _cron}
