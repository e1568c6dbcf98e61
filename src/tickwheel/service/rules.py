from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

__all__ = ["Rule", "RuleDocument"]


class RuleDocument(Struct, frozen=True):
    """
    The rule of a recurring job: a cron line, an interval, or a calendar rule (a number of days or months).

    `cron` is a line in the zone `tz`. An interval is `every_ms`, counted from `anchor_at`. A calendar rule runs at
    `time` in the zone `tz`: first on `anchor_on`, then after each step of `every`.

    Instants are in ms, and fields without a value are left out. `until` is the last allowed instant. `max_runs` is the
    maximum number of runs of the series, and `runs` the number of ended runs. `exclude` has the excluded instants, in
    the zone `tz`. If `misfire` is "skip", a run may begin `grace_ms` late (default: a minute). `run_at` is the instant
    of a run that is retried, or that was due while another run was running. `expires_ms` is the time to live of a run
    that is retried. After an additional or retried run, the next run is at `next_at` or later. `nominal_at` is the
    instant that the rule gives for the next run, before any jitter, if it differs from `due_at`. `then` is the
    definition that was set during a run; it applies after this run. The job is paused after `pause_after` failed runs
    in a row; `failures` is their current number. `succeeded_at` is the time of the last success.
    """

    misfire: Literal["once", "all", "skip"]
    jitter_ms: int
    cron: str | UnsetType = UNSET
    tz: str | UnsetType = UNSET
    every_ms: int | UnsetType = UNSET
    anchor_at: int | UnsetType = UNSET
    every: str | UnsetType = UNSET
    time: str | UnsetType = UNSET
    anchor_on: str | UnsetType = UNSET
    day_match: Literal["both"] | UnsetType = UNSET
    dst_gap: Literal["end", "skip"] | UnsetType = UNSET
    dst_overlap: Literal["first", "second", "both"] | UnsetType = UNSET
    until: int | UnsetType = UNSET
    max_runs: int | UnsetType = UNSET
    runs: int | UnsetType = UNSET
    exclude: list[str] | UnsetType = UNSET
    overlap: Literal["skip", "once", "all", "cancel"] | UnsetType = UNSET
    grace_ms: int | UnsetType = UNSET
    run_at: int | UnsetType = UNSET
    next_at: int | UnsetType = UNSET
    nominal_at: int | UnsetType = UNSET
    expires_ms: int | UnsetType = UNSET
    then: str | UnsetType = UNSET
    pause_after: int | UnsetType = UNSET
    failures: int | UnsetType = UNSET
    succeeded_at: int | UnsetType = UNSET


Rule: TypeAlias = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/RuleDocument"})]
"""The rule of a recurring job, as the JSON text that the store has. It is sent unchanged."""
