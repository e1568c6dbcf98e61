from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from tickwheel.jobs.recurring import EXCLUDE_MAX, RUNS_MAX
from tickwheel.service.bodies import (
    CENTURY_S,
    DstGap,
    DstOverlap,
    Instant,
    Line,
    Match,
    RetryBody,
    Span,
    Text,
    TimeOfDay,
)
from tickwheel.service.strict_json import Body

__all__ = ["ChangeBody"]


class ChangeBody(Body, frozen=True):
    """
    New values for some fields of a job. An absent field keeps its value. Null, where it is allowed, is a new value.
    """

    payload: Annotated[Any | UnsetType, Meta(description="Any JSON, at most 1 MiB.")] = UNSET
    target: Annotated[str, Meta(description="As in a set.")] | UnsetType = UNSET
    handler: Annotated[str, Meta(description="As in a set.")] | UnsetType | None = UNSET
    retry: RetryBody | UnsetType | None = UNSET
    expires: Annotated[Span, Meta(description="Seconds after which a run is not worth firing.")] | UnsetType | None = (
        UNSET
    )
    every: Span | UnsetType = UNSET
    time: TimeOfDay | UnsetType | None = UNSET
    cron: Line | UnsetType = UNSET
    day_match: Match | UnsetType | None = UNSET
    tz: Annotated[str, Meta(description="The IANA zone of `cron`, `time` and `exclude`.")] | UnsetType = UNSET
    dst_gap: DstGap | UnsetType | None = UNSET
    dst_overlap: DstOverlap | UnsetType | None = UNSET
    misfire: Literal["once", "all", "skip"] | UnsetType = UNSET
    misfire_grace: Span | UnsetType | None = UNSET
    overlap: Literal["skip", "once", "all", "cancel"] | UnsetType | None = UNSET
    jitter: Annotated[float, Meta(ge=0, le=CENTURY_S)] | Text | UnsetType = UNSET
    until: Instant | UnsetType | None = UNSET
    max_runs: Annotated[int, Meta(ge=1, le=RUNS_MAX, description="From now on.")] | UnsetType | None = UNSET
    pause_after: Annotated[int, Meta(ge=1, le=RUNS_MAX)] | UnsetType | None = UNSET
    exclude: Annotated[tuple[Line, ...], Meta(max_length=EXCLUDE_MAX)] | UnsetType = UNSET

    def fields(self) -> dict[str, Any]:
        values = zip(self.__struct_fields__, astuple(self), strict=True)
        fields = {name: value for name, value in values if value is not UNSET}
        if isinstance(self.retry, RetryBody):
            fields["retry"] = self.retry.policy()
        return fields
