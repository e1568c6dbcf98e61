"""
The rule of a recurring job in an answer: it goes out as the store has it, and a type describes it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

__all__ = ["Rule", "RuleDocument"]


class RuleDocument(Struct, frozen=True):
    """
    The rule of a recurring job: `cron` in the zone `tz`, every `every_ms` in the phase of `anchor_at`, or dates.

    Dates have the `time` in the zone `tz`, on `anchor_on` and every so many days or months after it, as `every` says.

    Instants are in ms, and fields without a value are left out. `until` is the last instant that is allowed, `max_runs`
    how many runs the series has, `runs` how many have ended, `exclude` what is left out, in the zone `tz`. With `skip`,
    a run may begin `grace_ms` late, a minute if that is absent.
    `run_at` is the instant of a run that is tried again or was due while another one lasted, and `expires_ms` for how
    long a run is worth firing, while one is tried again. `next_at` is when the series goes on at the earliest, after a
    run that was to be at once or is tried again. `nominal_at` is the instant that the rule named for the next run,
    before any jitter, where `due_at` does not show it. `then` is what was set while a run lasts, and counts once that
    has ended. The job is paused once `pause_after` runs in a row have failed; `failures` have by now.
    `succeeded_at` is when one last succeeded.
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
"""The stored text of a rule, which is not read to be sent."""
