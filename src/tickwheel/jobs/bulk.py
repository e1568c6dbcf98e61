"""
Requests to do the same to all jobs that a filter chooses, and their answers.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Job, State, record
from tickwheel.jobs.requests import Filter, ListFields, flag, job_query
from tickwheel.jobs.verbs import note_of
from tickwheel.typing import Duration, Instant

__all__ = ["BULK_VERBS", "BulkAnswer", "BulkFields", "BulkProgress", "BulkRequest", "bulk_request"]

BULK_VERBS: Final = ("cancel", "move", "spread", "run", "replay", "pause", "resume")
_STATES: Final = {
    "cancel": (State.PENDING, State.RUNNING, State.DEAD),
    "pause": (State.PENDING, State.RUNNING),
    "replay": (State.DEAD,),
}
"""Those that a verb can change, if not pending ones alone; of what runs, only recurring jobs, unless it is to stop."""
_TAKES: Final = {"shift": ("move",), "over": ("spread", "replay")}
_FILTERS: Final = tuple(Filter.__annotations__)


class BulkFields(Filter, total=False):
    """
    The keyword arguments of `bulk`, beside verb and prefix: those of `Filter`, and what to do with the jobs.

    Attributes:
        shift: With "move": by how many seconds, or text or a timedelta; below zero is earlier.
        over: With "spread" and "replay": over how many seconds to spread the jobs, each at a place fixed by its key.
        since: With these: from which instant on; by default from when the run began.
        note: With "pause": why.
        by: With "pause": who; None for this process.
        running: With "cancel": whether those that run are asked to stop, as by `cancel(key, running=True)`.
        dry_run: Whether to count the jobs only.
        limit: How many jobs to change at most; None for all.
        cursor: Where to go on: that of an answer, or of what `on_progress` got.
    """

    shift: Duration | None
    over: Duration | None
    since: Instant | None
    note: str
    by: str | None
    running: bool
    dry_run: bool
    limit: int | None
    cursor: str | None


@record
class BulkAnswer:
    """
    The state of a bulk change: how far it has come.

    Attributes:
        matched: How many jobs the filter chose.
        changed: How many of them were changed, or asked to stop; none in a dry run.
        refused: How many had begun to run, or were changed by others since they were read, and so were left alone.
        cursor: Where to go on; None if there is nothing left.
        start: A cursor at the beginning of the same run: of a dry run, it makes a run that can be repeated as a whole.
        stopping: How many of those that changed ran, and were asked to stop.
    """

    matched: int
    changed: int
    refused: int
    cursor: str | None
    start: str
    stopping: int = 0


BulkProgress = Callable[[BulkAnswer], object]
"""Called after each commit with how far it has come."""


@record
class BulkRequest:
    """
    A bulk change whose fields were checked.
    """

    verb: str
    filters: ListFields
    shift_ms: int = 0
    over_ms: int = 0
    since: int | None = None
    words: tuple[str, str] = ("", "")
    stops: bool = False
    is_dry: bool = False
    limit: int | None = None
    run: tuple[int, int] | None = None

    def chooses(self, job: Job) -> bool:
        if self.verb == "resume":
            return job.is_paused
        if job.state is State.RUNNING:
            return self.stops or job.recurrence is not None
        return job.state is not State.DEAD or self.filters.get("state") is not None


def bulk_request(verb: str, prefix: str, fields: BulkFields, now: int) -> BulkRequest:
    """
    Return the request that *fields* make.

    Raises:
        InvalidJobError: Naming the value and the remedy.
        InvalidDelayError: For NaN.
        TypeError: For a time that is no number.
    """
    if verb not in BULK_VERBS:
        raise InvalidJobError("verb", verb, f"pass one of {', '.join(BULK_VERBS)}")
    shift, over, since = fields.get("shift"), fields.get("over"), fields.get("since")
    _check_together(verb, {"shift": shift, "over": over})
    if since is not None and over is None:
        raise InvalidJobError("since", since, "pass it with over=")
    stops = flag("running", fields.get("running", False))
    if stops and verb != "cancel":
        raise InvalidJobError("running", stops, f"pass it with cancel, not with {verb}")
    limit, cursor = fields.get("limit"), fields.get("cursor")
    run, after = (None, None) if cursor is None else _read_cursor(cursor)
    return BulkRequest(
        verb,
        {**_filters(verb, prefix, fields, now), "cursor": after or None},
        0 if shift is None else _shift_ms(shift),
        0 if over is None else checks.span_ms("over", over),
        None if since is None else checks.at_ms(since, now, "since"),
        note_of(fields.get("by") or "", fields.get("note", "")),
        stops,
        flag("dry_run", fields.get("dry_run", False)),
        None if limit is None else checks.check_count("limit", limit, checks.NUMBER_MAX),
        run,
    )


def _filters(verb: str, prefix: str, fields: BulkFields, now: int) -> ListFields:
    """
    Return what chooses the jobs, narrowed to those that *verb* can change.
    """
    given: dict[str, Any] = {name: value for name, value in fields.items() if name in _FILTERS and _is_given(value)}
    if not given and not prefix:
        raise InvalidJobError("prefix", prefix, "choose jobs by a filter, as state='pending' does for all pending ones")
    filters = cast("ListFields", {"prefix": prefix, **given})
    state = job_query(filters, now).state
    can = _STATES.get(verb, (State.PENDING,))
    if state is not None and state not in can:
        raise InvalidJobError("state", state.value, f"{verb} changes jobs that are {' or '.join(can)}")
    if len(can) == 1:
        filters["state"] = can[0]
    if verb == "resume":
        filters["paused"] = True
    return filters


def _is_given(value: object) -> bool:
    return value is not None and value is not False  # 0 is an instant, and "" the handler of jobs that name none


def _check_together(verb: str, times: dict[str, Duration | None]) -> None:
    for name, value in times.items():
        verbs = _TAKES[name]
        if value is None and verb == verbs[0]:
            raise InvalidJobError(name, value, f"pass seconds: {verb} needs it")
        if value is not None and verb not in verbs:
            raise InvalidJobError(name, value, f"pass it with {' or '.join(verbs)}, not with {verb}")


def _shift_ms(shift: Duration) -> int:
    value = checks.seconds("shift", shift)
    if value == 0:
        raise InvalidJobError("shift", shift, "pass seconds other than 0; below zero is earlier")
    size = checks.span_ms("shift", abs(value))
    return size if value > 0 else -size


def _read_cursor(cursor: str) -> tuple[tuple[int, int], str]:
    head, slash, key = cursor.partition("/") if isinstance(cursor, str) else ("", "", "")
    mark, dot, now = head.partition(".")
    if not (slash and dot and mark.isdecimal() and now.isdecimal() and len(head) <= 40):  # noqa: PLR2004  two of int64
        raise InvalidJobError("cursor", cursor, "pass the cursor that an answer of bulk has")
    return (int(mark), int(now)), key
