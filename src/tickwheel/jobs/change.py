"""
The fields of `change`, for a store and for a service.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time
from typing import Any, Final, TypedDict

from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import RetryPolicy
from tickwheel.typing import Duration, Instant

__all__ = ["ChangeFields", "change_fields"]


class ChangeFields(TypedDict, total=False):
    """
    The keyword arguments of `change`; `SetRequest` documents them.

    Attributes:
        payload: New payload; None is a payload, too.
        target: New target kind.
        handler: New handler of that kind.
        retry: New policy; None for the handler's, or else the scheduler's.
        expires: Seconds after the due time, or None for no end.
        every: New interval. It counts from the last nominal run; from now if it replaces a cron line.
        time: New time of day; None to count elapsed time.
        cron: New cron line; may replace an interval.
        day_match: Meaning of a cron line with both day fields; None for the default.
        tz: New zone of `cron`, `time` and `exclude`.
        dst_gap: Policy for times that the wall clock skips; None for the default.
        dst_overlap: Policy for times that the wall clock shows twice; None for the default.
        misfire: Policy for missed runs.
        misfire_grace: With "skip", the maximum lateness of a run; None for a minute.
        overlap: Policy for instants that pass during a run; None for the default.
        jitter: Seconds over which the runs of different keys are spread.
        until: The instant after which no run is due, or None for no end.
        max_runs: The job is removed after this number of runs since the start of the series; None for no end.
        pause_after: The job is paused after this number of failed runs in a row; None for never.
        exclude: New exclusions of the series.
    """

    payload: Any
    target: str
    handler: str | None
    retry: RetryPolicy | None
    expires: Duration | None
    every: Duration
    time: str | time | None
    cron: str
    day_match: str | None
    tz: str
    dst_gap: str | None
    dst_overlap: str | None
    misfire: str
    misfire_grace: Duration | None
    overlap: str | None
    jitter: Duration
    until: Instant | None
    max_runs: int | None
    pause_after: int | None
    exclude: Sequence[str | date]


_FIELDS: Final = tuple(ChangeFields.__annotations__)


def change_fields(fields: ChangeFields) -> ChangeFields:
    """
    Return *fields* if they are known and not empty; otherwise raise.
    """
    for name in fields:
        if name not in _FIELDS:
            message = f"change() got an unexpected keyword argument {name!r}"
            raise TypeError(message)
    if not fields:
        raise InvalidJobError("fields", {}, f"name what to change: {', '.join(_FIELDS)}")
    return fields
