"""
The jobs of APScheduler 3, from the table of its SQLAlchemyJobStore.

Neither APScheduler nor any code of the pickles is needed: triggers are read from their states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from tickwheel.cli.exits import ExitCode, Refused
from tickwheel.cli.pickles import Foreign, foreign_in, load
from tickwheel.cli.takeover import CannotTakeOverError, Found, checked, next_on_grid
from tickwheel.scheduler import SetRequest

__all__ = ["found_in"]

_DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_NTH: Final = ("#1", "#2", "#3", "#4", "#5", "L")
_MODULES: Final = "apscheduler.triggers."


def found_in(url: str, table: str, target: str) -> Iterator[Found]:
    """
    Yield the jobs of a store of APScheduler's, in the order of their ids.

    Args:
        url: As SQLAlchemy has it.
        table: Its name there.
        target: Where the jobs go to.

    Raises:
        Refused: If SQLAlchemy or the table is missing, or the database does not answer.
    """
    for name, is_paused, pickled in _rows(url, table):

        def make(
            remarks: list[str], name: str = name, is_paused: bool = is_paused, data: bytes = pickled
        ) -> SetRequest:
            if is_paused:
                raise CannotTakeOverError("it is paused")
            return _request(name, load(data), target, remarks)

        yield checked(name, make)


def _rows(url: str, table: str) -> list[tuple[str, bool, bytes]]:
    try:
        import sqlalchemy  # noqa: PLC0415  on use: no extra brings it
    except ImportError:
        raise Refused(ExitCode.MISSING_EXTRA, "SQLAlchemy is not installed: pip install sqlalchemy") from None
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            jobs = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
            with engine.connect() as connection:
                rows = connection.execute(
                    sqlalchemy.select(jobs.c.id, jobs.c.next_run_time, jobs.c.job_state).order_by(jobs.c.id)
                )
                return [(row.id, row.next_run_time is None, row.job_state) for row in rows]
        finally:
            engine.dispose()
    except sqlalchemy.exc.NoSuchTableError:
        message = f"there is no table {table!r}: name it with --table, and the database as SQLAlchemy does"
        raise Refused(ExitCode.NOT_FOUND, message) from None
    except (sqlalchemy.exc.SQLAlchemyError, AttributeError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise Refused(ExitCode.USAGE, f"the jobs of APScheduler cannot be read: {reason}") from None


def _request(name: str, state: Any, target: str, remarks: list[str]) -> SetRequest:
    if not isinstance(state, dict) or not {"func", "trigger", "args", "kwargs"} <= state.keys():
        raise CannotTakeOverError("it is not a job of APScheduler 3")
    payload = {"args": list(state["args"]), "kwargs": dict(state["kwargs"])}
    strangers = sorted(set(foreign_in(payload)))
    if strangers:
        reason = f"its arguments hold a {strangers[0]}, which JSON cannot carry: pass its id instead"
        raise CannotTakeOverError(reason)
    if state.get("max_instances", 1) != 1:
        remarks.append(f"up to {state['max_instances']} runs at a time: a job here waits for its last run to end")
    request = SetRequest(name, target=target, handler=state["func"], payload=payload)
    trigger = state["trigger"]
    kind = trigger.path if isinstance(trigger, Foreign) else type(trigger).__qualname__
    read = _TRIGGERS.get(kind.removeprefix(_MODULES))
    if read is None:
        reason = f"its trigger is a {kind.rpartition('.')[2]}, and only those of one date, interval or cron are read"
        raise CannotTakeOverError(reason)
    for field, value in read(trigger.fields, remarks).items():
        setattr(request, field, value)
    _misfires(request, state)
    return request


def _misfires(request: SetRequest, state: Mapping[str, Any]) -> None:
    grace = state.get("misfire_grace_time")
    if request.every is None and request.cron is None:
        request.expires = grace
    elif grace is not None:
        request.misfire, request.misfire_grace = "skip", max(1, grace)
    else:
        request.misfire = "once" if state.get("coalesce", True) else "all"


def _date(fields: Mapping[str, Any], _remarks: list[str]) -> dict[str, Any]:
    return {"at": fields["run_date"]}


def _interval(fields: Mapping[str, Any], remarks: list[str]) -> dict[str, Any]:
    start: datetime = fields["start_date"]
    return {
        "every": fields["interval"],
        "at": next_on_grid(start, fields["interval"]),
        **_common(fields, remarks),
    }


def _cron(fields: Mapping[str, Any], remarks: list[str]) -> dict[str, Any]:
    parts = {each.fields["name"]: _field(each) for each in fields["fields"]}
    for name in ("year", "week"):
        if parts[name] != "*":
            reason = f"its cron trigger has {name}={parts[name]!r}, which a cron line cannot say"
            raise CannotTakeOverError(reason)
    day, weekday = parts["day"], parts["day_of_week"]
    if "#" in day or (day.endswith("L") and day != "L"):  # the third Friday: a day there, a weekday here
        if weekday != "*":
            raise CannotTakeOverError("its cron trigger restricts both day and day_of_week")
        day, weekday = "*", day
    if day != "*" and weekday != "*":
        raise CannotTakeOverError("its cron trigger wants both day and day_of_week to match, a cron line one of them")
    line = [parts["minute"], parts["hour"], day, parts["month"], weekday]
    if parts["second"] != "0":
        line.insert(0, parts["second"])
    start = fields["start_date"]
    zone = getattr(fields["timezone"], "key", None) or str(fields["timezone"])
    made = {"cron": " ".join(line), "tz": zone, **_common(fields, remarks)}
    return made if start is None else {**made, "at": start}


def _common(fields: Mapping[str, Any], remarks: list[str]) -> dict[str, Any]:
    jitter = fields.get("jitter") or 0
    if jitter:
        remarks.append(f"its jitter of {jitter} s is the same at each run of a key, and never earlier")
    return {"jitter": jitter, "until": fields.get("end_date")}


def _field(field: Foreign) -> str:
    """
    Return a field of a cron trigger as a cron line has it.
    """
    return ",".join(_expression(each, field.fields["name"]) for each in field.fields["expressions"])


def _expression(expression: Foreign, field: str) -> str:
    values, kind = expression.fields, expression.kind
    step = f"/{values['step']}" if values.get("step") else ""
    if kind == "AllExpression":
        return f"*{step}"
    if kind == "LastDayOfMonthExpression":
        return "L"
    if kind == "WeekdayPositionExpression":
        nth = _NTH[values["option_num"]]
        return f"{_DAYS[values['weekday']]}{nth}"
    first, last = values["first"], values["last"]
    if field == "day_of_week":  # Monday is 0 there and 1 here: the names are the same
        days = range(first, (first if last is None and not step else 6 if last is None else last) + 1)
        return ",".join(_DAYS[day] for day in days[:: values.get("step") or 1])
    return f"{first}{step}" if last in (None, first) else f"{first}-{last}{step}"


_TRIGGERS: Final = {
    "date.DateTrigger": _date,
    "interval.IntervalTrigger": _interval,
    "cron.CronTrigger": _cron,
}
