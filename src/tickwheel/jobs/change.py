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
    The keyword arguments of `change`; see `SetRequest`.

    A field that is not passed stays unchanged; None has the same meaning as in `set`. If `every` changes, the new
    interval counts from the nominal instant of the last run. If `every` replaces a cron line, it counts from now.
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
    for name in fields:
        if name not in _FIELDS:
            message = f"change() got an unexpected keyword argument {name!r}"
            raise TypeError(message)
    if not fields:
        raise InvalidJobError("fields", {}, f"name what to change: {', '.join(_FIELDS)}")
    return fields
