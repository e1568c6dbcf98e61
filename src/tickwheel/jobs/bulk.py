from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from tickwheel.jobs import checks
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Job, State, record
from tickwheel.jobs.requests import Filter, ListFields, flag, job_query
from tickwheel.jobs.verbs import note_of
from tickwheel.typing import Duration, Instant

__all__ = [
    "BULK",
    "BULK_VERBS",
    "CHANGES_MAX",
    "BulkAnswer",
    "BulkChange",
    "BulkFields",
    "BulkProgress",
    "BulkRequest",
    "bulk_request",
]

BULK: Final = "bulk"
"""The outcome that the log of acts shows for a bulk change."""
CHANGES_MAX: Final = 10_000
"""Maximum number of changed jobs that the answer to a bulk change lists."""
BULK_VERBS: Final = ("cancel", "move", "spread", "run", "replay", "pause", "resume")
_STATES: Final = {
    "cancel": (State.PENDING, State.RUNNING, State.DEAD),
    "pause": (State.PENDING, State.RUNNING),
    "replay": (State.DEAD,),
}
"""The states of jobs that each verb can change. A verb that is not listed can change only pending jobs."""
_TAKES: Final = {"shift": ("move",), "over": ("spread", "replay")}
_FILTERS: Final = tuple(Filter.__annotations__)


class BulkFields(Filter, total=False):
    """
    The keyword arguments of `bulk` besides verb and prefix: the filter (see `Filter`) and the change.

    Attributes:
        shift: With "move": seconds, text or a timedelta to add to each due time; negative for earlier.
        over: With "spread" and "replay": seconds over which the jobs are spread, by a hash of their keys.
        since: With "spread" and "replay": the start of the span; by default the start of the bulk change.
        note: The reason, for the log of acts; with "pause", also shown in the paused jobs.
        by: With "pause": the author of the pause; None for this process.
        running: With "cancel": True to ask running jobs to stop, as `cancel(key, running=True)` does.
        dry_run: True to count the jobs without changing them.
        limit: Maximum number of jobs to change; None for all.
        cursor: Position to continue from: the `cursor` of an earlier answer, or of an answer passed to `on_progress`.
        changes: True to return the changed jobs, up to 10,000 in one call.
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
    changes: bool


@record
class BulkChange:
    """
    A job that was changed by `bulk`. The change can be undone while the job still has *generation*.

    *was_due_at* is the due time before the change, in ms since the epoch.
    """

    key: str
    generation: int
    was_due_at: int


@record
class BulkAnswer:
    """
    The state of a bulk change.

    Attributes:
        matched: Number of jobs that match the filter.
        changed: Number of jobs that were changed or asked to stop; 0 in a dry run.
        refused: Number of matching jobs that were not changed: they had started, or another caller changed them.
        cursor: Position from which the next call continues; None if the bulk change is complete.
        start: A cursor at the start of this bulk change. Pass the `start` of a dry run to change the same jobs.
        stopping: Number of changed jobs that were running and were asked to stop.
        changes: The changed jobs, if the caller requested them.
    """

    matched: int
    changed: int
    refused: int
    cursor: str | None
    start: str
    stopping: int = 0
    changes: tuple[BulkChange, ...] = ()


BulkProgress = Callable[[BulkAnswer], object]
"""A callback that gets the current state of a bulk change after each of its commits."""


@record
class BulkRequest:
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
    has_changes: bool = False

    def chooses(self, job: Job) -> bool:
        if self.verb == "resume":
            return job.is_paused
        if job.state is State.RUNNING:
            return self.stops or job.recurrence is not None
        return job.state is not State.DEAD or self.filters.get("state") is not None


def bulk_request(verb: str, prefix: str, fields: BulkFields, now: int) -> BulkRequest:
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
        flag("changes", fields.get("changes", False)),
    )


def _filters(verb: str, prefix: str, fields: BulkFields, now: int) -> ListFields:
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
    return value is not None and value is not False  # 0 is an instant, and "" means jobs without a handler


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
