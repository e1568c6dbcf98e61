"""
The fields that `change` accepts, the same for a store and for a service.

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
    The keyword arguments of `change`; they mean what they mean in `SetRequest`.

    Attributes:
        payload: Another payload; None is one, too.
        target: Another kind of place.
        handler: Another one of that kind.
        retry: Another policy; None for that of the handler, or else the scheduler's.
        expires: Seconds after its instant, or None for no end.
        every: Another interval, counted from the last nominal run; in place of a cron line, from now.
        time: Another time of the day; None to count elapsed time.
        cron: Another line; in place of an interval, too.
        day_match: What both day fields of a line mean; None for what is so by default.
        tz: Another zone of `cron`, `time` and `exclude`.
        dst_gap: What to do about times that the wall clock skips; None for what is so by default.
        dst_overlap: What to do about times that it shows twice; None for what is so by default.
        misfire: What to do about missed runs.
        misfire_grace: With "skip", how late a run may begin; None for a minute.
        overlap: What to do about instants that pass while a run lasts; None for what is so by default.
        jitter: Seconds over which the runs of different keys are spread.
        until: The instant after which no run is due, or None for no end.
        max_runs: After how many runs since the series began the job is gone, or None for no end.
        pause_after: After how many failed runs in a row the job is paused, or None for never.
        exclude: What is left out of the series, in place of what was.
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
    Return *fields* if there is any, and all are known.

    Raises:
        InvalidJobError: If there is none.
        TypeError: For another name, as for any unknown argument.
    """
    for name in fields:
        if name not in _FIELDS:
            message = f"change() got an unexpected keyword argument {name!r}"
            raise TypeError(message)
    if not fields:
        raise InvalidJobError("fields", {}, f"name what to change: {', '.join(_FIELDS)}")
    return fields
