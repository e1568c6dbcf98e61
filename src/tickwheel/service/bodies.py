"""
The bodies of requests.

Fields have the names of the library's arguments (`delay`, `at`, `every`). A length of time is a number of seconds, or
text such as `90s`, `2h30m` and `PT30M`. An instant is RFC 3339 with an offset, or a number of seconds since the epoch.
"""

from __future__ import annotations

from datetime import datetime
from itertools import compress
from operator import is_not
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Raw
from msgspec.structs import astuple

from tickwheel.host.pulls import LEASE_MAX_S, LEASE_MIN_S, LEASES_MAX, WAIT_MAX_S
from tickwheel.jobs import checks
from tickwheel.jobs.declaration import MANIFEST_MAX
from tickwheel.jobs.model import NOTE_MAX, RetryPolicy
from tickwheel.jobs.recurring import EXCLUDE_MAX, RUNS_MAX
from tickwheel.scheduler.backfill import BACKFILL_MAX
from tickwheel.service.strict_json import Body
from tickwheel.typing import Duration

__all__ = [
    "AckBody",
    "BatchBody",
    "BatchOutline",
    "BulkBody",
    "CancelItem",
    "DstGap",
    "DstOverlap",
    "ExtendBody",
    "Item",
    "LeaseBody",
    "ManifestBody",
    "ManifestOutline",
    "Match",
    "MoveBody",
    "MoveItem",
    "NackBody",
    "PauseBody",
    "PauseItem",
    "ReleaseBody",
    "ReplayItem",
    "ResumeItem",
    "RetryBody",
    "ScheduleItem",
    "SetBody",
    "SetItem",
    "TimeOfDay",
]

CENTURY_S: Final = 36_525 * 86_400
"""Maximum delay of a durable job."""
YEAR_S: Final = 366 * 86_400
"""Maximum delay before a retry."""

Text = Annotated[str, Meta(max_length=101)]
Delay = Annotated[
    Annotated[float, Meta(le=CENTURY_S)] | Text,
    Meta(description="Seconds from now, or text; below zero counts as now.", examples=[3, "2h30m"]),
]
Instant = Annotated[
    Annotated[datetime, Meta(tz=True)] | float,
    Meta(description="RFC 3339 with an offset, or seconds since the epoch.", examples=["2030-01-01T09:00:00Z"]),
]
Span = Annotated[
    Annotated[float, Meta(gt=0, le=CENTURY_S)] | Text,
    Meta(description="Seconds, or text such as `90s`, `2h30m` or `PT30M`."),
]
Line = Annotated[str, Meta(description="Five or six fields, `@daily`, `@every 90s`, by which the job recurs.")]
TimeOfDay = Annotated[
    str, Meta(max_length=8, description="With `every` of days, weeks or months, as in `1 month`: the time of each run.")
]
Match = Annotated[
    Literal["either", "both"],
    Meta(description="With a line that restricts day and weekday: which has to match; by default `either`."),
]
DstGap = Annotated[
    Literal["end", "skip"],
    Meta(
        description="What to do about times that the clock skips; by default as in cron, or in robfig's with seconds."
    ),
]
DstOverlap = Annotated[
    Literal["first", "second", "both"],
    Meta(description="What to do about times that the clock shows twice; by default likewise."),
]
Wait = Annotated[
    Annotated[float, Meta(ge=0, le=YEAR_S)] | Text,
    Meta(description="Seconds, or text such as `90s`, `2h30m` or `PT30M`, at most 366 days."),
]
Manifest = Annotated[str, Meta(min_length=1, max_length=255)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Generation = Annotated[int, Meta(ge=0, description="Only if the job has it; 0: only if there is none.")]


class RetryBody(Body, frozen=True):
    """
    A retry policy: the number of attempts, and the delays before retries.
    """

    attempts: Annotated[int, Meta(ge=1, le=1000, description="How often at most, the first included.")] = 5
    kind: Literal["exponential", "linear", "list"] = "exponential"
    base_s: Wait = 1.0
    max_s: Wait = 3600.0
    jitter: Fraction = 0.1
    waits_s: Annotated[tuple[Wait, ...], Meta(max_length=1000, description="A list's waits; the last repeats.")] = ()

    def policy(self) -> RetryPolicy:
        base_ms, max_ms = _whole_ms("retry.base_s", self.base_s), _whole_ms("retry.max_s", self.max_s)
        waits_ms = tuple(_whole_ms("retry.waits_s", wait) for wait in self.waits_s)
        return RetryPolicy(self.attempts, self.kind, base_ms, max_ms, self.jitter, waits_ms)


def _whole_ms(name: str, wait: Duration) -> int:
    return round(checks.seconds(name, wait) * 1000)


class SetBody(Body, frozen=True):
    """
    A job to set. Exactly one of `delay`, `at`, `every` and `cron` is required.
    """

    delay: Delay = None  # type: ignore[assignment]  # null is refused, and what is absent is None
    at: Instant = None  # type: ignore[assignment]
    every: Span = None  # type: ignore[assignment]
    time: TimeOfDay | None = None
    cron: Line = None  # type: ignore[assignment]
    day_match: Match | None = None
    tz: Annotated[
        str,
        Meta(description="The IANA zone of `cron`, `time` and `exclude`; `local` is that of the service's machine."),
    ] = "UTC"
    dst_gap: DstGap | None = None
    dst_overlap: DstOverlap | None = None
    misfire: Annotated[Literal["once", "all", "skip"], Meta(description="What to do about runs that were missed.")] = (
        "once"
    )
    misfire_grace: Annotated[
        Span | None, Meta(description="With `skip`, how late a run may begin and not be missed; by default `1m`.")
    ] = None
    overlap: Annotated[
        Literal["skip", "once", "all", "cancel"] | None,
        Meta(description="What to do about runs that are due while one lasts; by default `skip`."),
    ] = None
    until: Annotated[Instant | None, Meta(description="After this instant no run is due.")] = None
    max_runs: Annotated[int, Meta(ge=1, le=RUNS_MAX)] | None = None
    pause_after: (
        Annotated[int, Meta(ge=1, le=RUNS_MAX, description="Pause the job after so many failed runs in a row.")] | None
    ) = None
    exclude: Annotated[
        tuple[Line, ...],
        Meta(
            max_length=EXCLUDE_MAX,
            description="Days (`2026-12-25`, `2026-12-24/2027-01-02`) and cron lines to leave out.",
        ),
    ] = ()
    jitter: Annotated[
        Annotated[float, Meta(ge=0, le=CENTURY_S)] | Text,
        Meta(description="Seconds, or text, over which the runs of different keys are spread."),
    ] = 0.0
    payload: Annotated[Any, Meta(description="Any JSON, at most 1 MiB.")] = None
    target: Annotated[str, Meta(description="`handler`, `webhook`, `log`, `pull`, or one of your own.")] = "handler"
    handler: Annotated[str | None, Meta(description="The handler's name, the webhook's address, the queue.")] = None
    retry: RetryBody | None = None
    expires: Annotated[Span | None, Meta(description="Seconds after which a run is not worth firing.")] = None
    mode: Annotated[
        Literal["replace", "keep", "earliest", "restart"],
        Meta(description="What to do with a pending job of this key."),
    ] = "replace"
    max_wait: Annotated[
        Span | None, Meta(description="With replace: seconds after the first set past which it is not put off.")
    ] = None
    trace: Annotated[str | None, Meta(description="A W3C traceparent.")] = None
    keep_payload: Annotated[
        bool, Meta(description="Keep the payload of the pending or running job of this key, where there is one.")
    ] = False
    manifest: Annotated[
        Manifest | None, Meta(description="The manifest that the recurring job belongs to: see `/v1/manifests/{name}`.")
    ] = None

    def fields(self) -> dict[str, Any]:
        """
        Return the fields that differ from the defaults, as arguments of `set` and of `SetRequest`.
        """
        values = astuple(self)
        is_given = map(is_not, values, self.__struct_defaults__)  # runs in C, because a batch has many items
        fields = dict(compress(zip(self.__struct_fields__, values, strict=True), is_given))
        if self.retry is not None:
            fields["retry"] = self.retry.policy()
        return fields


class MoveBody(Body, frozen=True):
    """
    The new due time of a job. Exactly one of `delay` and `at` is required.
    """

    delay: Delay = None  # type: ignore[assignment]  # null is refused, and what is absent is None
    at: Instant = None  # type: ignore[assignment]


class PauseBody(Body, frozen=True):
    """
    The reason for a pause.
    """

    note: Annotated[str, Meta(max_length=1000, description="Why it is paused, for others to read.")] = ""


class BackfillBody(Body, frozen=True):
    """
    A range of time in the past, from `since` up to but not including `until`.

    `until` is at most the due time of the next run.
    """

    since: Instant
    until: Instant
    rate: Annotated[
        Annotated[float, Meta(ge=0.001, le=1_000_000)] | None,
        Meta(description="So many runs a second, one after the other; without one, all now."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=BACKFILL_MAX, description="How many runs at most.")] = 1_000
    dry_run: Annotated[bool, Meta(description="Count the runs and set none.")] = False


class ScopeBody(Body, frozen=True):
    """
    The scope of a pause or resume: a handler, a queue, a target, or all jobs.
    """

    scope: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=2560,
            description="`handler:mail`, `pull:images`, in general `TARGET:HANDLER`; a target alone; or `*` for all.",
            extra_json_schema={"pattern": "^[^\\u0000:]+(:[^\\u0000]*[^\\u0000:])?$"},
        ),
    ]


class PauseScopeBody(ScopeBody, frozen=True):
    """
    The scope to pause (such as a handler), and the reason.
    """

    note: Annotated[str, Meta(max_length=1000, description="Why it is paused, for others to read.")] = ""


class SetItem(SetBody, frozen=True, kw_only=True, tag_field="do", tag="set"):
    key: str
    if_generation: Generation | None = None


class MoveItem(MoveBody, frozen=True, kw_only=True, tag_field="do", tag="move"):
    key: str
    if_generation: Generation | None = None


class CancelItem(Body, frozen=True, kw_only=True, tag_field="do", tag="cancel"):
    key: str
    running: Annotated[bool, Meta(description="Ask the job to stop if it runs.")] = False
    if_generation: Generation | None = None


class ReplayItem(Body, frozen=True, kw_only=True, tag_field="do", tag="replay"):
    """
    A replay in a batch. The dead job becomes pending again, due now or after `delay`.
    """

    key: str
    delay: Delay = 0.0
    if_generation: Generation | None = None


class PauseItem(PauseBody, frozen=True, kw_only=True, tag_field="do", tag="pause"):
    key: str
    if_generation: Generation | None = None


class ResumeItem(Body, frozen=True, kw_only=True, tag_field="do", tag="resume"):
    key: str
    if_generation: Generation | None = None


Item: TypeAlias = SetItem | MoveItem | CancelItem | ReplayItem | PauseItem | ResumeItem


class BatchBody(Body, frozen=True):
    """
    Up to 10,000 changes, done in the given order.
    """

    items: Annotated[tuple[Item, ...], Meta(max_length=10_000)]
    with_jobs: Annotated[bool, Meta(description="Whether each result carries the job as it is afterwards.")] = False
    refuse_all: Annotated[bool, Meta(description="Whether one bad set refuses the batch before any is done.")] = False


class BatchOutline(BatchBody, frozen=True, kw_only=True):
    # the items are not decoded yet
    items: Annotated[tuple[Raw, ...], Meta(max_length=10_000)]  # type: ignore[assignment]


class ScheduleItem(SetBody, frozen=True, kw_only=True):
    """
    One recurring job of a manifest.

    It has a key and the fields of `SetBody` except `delay`, `at`, `mode` and `max_wait`.
    """

    key: str


class ManifestBody(Body, frozen=True):
    """
    All recurring jobs of a manifest. Jobs of an earlier declaration that are missing here are cancelled.
    """

    jobs: Annotated[tuple[ScheduleItem, ...], Meta(max_length=MANIFEST_MAX)]
    revision: Annotated[
        Annotated[int, Meta(ge=0, le=checks.NUMBER_MAX)] | None,
        Meta(description="The number of the build or release; after a newer one, nothing is done."),
    ] = None
    rollback: Annotated[bool, Meta(description="Whether an older revision is wanted nevertheless.")] = False
    allow_empty: Annotated[bool, Meta(description="Whether an empty list, which cancels all jobs, is meant.")] = False
    dry_run: Annotated[bool, Meta(description="Return what would happen, and write nothing.")] = False

    def options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("revision", "rollback", "allow_empty", "dry_run")}


class ManifestOutline(ManifestBody, frozen=True, kw_only=True):
    # the jobs are not decoded yet
    jobs: Annotated[tuple[Raw, ...], Meta(max_length=MANIFEST_MAX)]  # type: ignore[assignment]


Part = Annotated[str, Meta(min_length=1, max_length=512)]
FIELD_PATTERN: Final = "^[^=\\u0000]+=[^\\u0000]*$"


class BulkBody(Body, frozen=True):
    """
    A change (such as cancel), and a filter that selects the jobs. The filter has at least one field.
    """

    do: Annotated[
        Literal["cancel", "move", "spread", "run", "replay", "pause", "resume"],
        Meta(description="`move` needs `shift`, `spread` needs `over`, `replay` is for dead jobs."),
    ]
    prefix: Annotated[str, Meta(max_length=512, description="Keys that begin with this.")] = ""
    contains: Annotated[Part | None, Meta(description="Keys that contain this.")] = None
    handler: Annotated[str, Meta(max_length=2048)] | None = None
    target: Part | None = None
    state: Annotated[
        Literal["pending", "running", "dead"] | None, Meta(description="By default what the verb alone would change.")
    ] = None
    due_from: Instant | None = None
    due_until: Instant | None = None
    error: Annotated[Part | None, Meta(description="Jobs whose last error contains this.")] = None
    payload: Annotated[Part | None, Meta(description="Jobs whose payload contains this.")] = None
    field: Annotated[
        Annotated[Part, Meta(extra_json_schema={"pattern": FIELD_PATTERN})] | None,
        Meta(description="Jobs whose JSON payload has this field: `name=value`."),
    ] = None
    recurring: Annotated[bool, Meta(description="Only recurring jobs.")] = False
    paused: Annotated[bool, Meta(description="Only pending jobs that are paused.")] = False
    manifest: Annotated[Manifest | None, Meta(description="Only jobs that belong to this manifest.")] = None
    shift: Annotated[
        Annotated[float, Meta(ge=-CENTURY_S, le=CENTURY_S)] | Text | None,
        Meta(description="With `move`: seconds, or text; below zero is earlier."),
    ] = None
    over: Annotated[Span | None, Meta(description="With `spread` and `replay`: over how long.")] = None
    since: Annotated[Instant | None, Meta(description="With `over`: from when on, by default from now.")] = None
    note: Annotated[str, Meta(max_length=1000, description="Why, for the log of acts and the pause.")] = ""
    running: Annotated[bool, Meta(description="With `cancel`: ask those that run to stop.")] = False
    dry_run: Annotated[bool, Meta(description="Count the jobs and change none.")] = False
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many jobs at most.")] = 10_000
    cursor: Annotated[Annotated[str, Meta(max_length=1024)] | None, Meta(description="Of the answer before.")] = None
    changes: Annotated[bool, Meta(description="List the changed jobs, by which the act can be undone.")] = False


FireId = Annotated[str, Meta(min_length=1, max_length=1024, description="As the lease gave it.")]
LeaseSpan = Annotated[
    Annotated[float, Meta(ge=LEASE_MIN_S, le=LEASE_MAX_S)] | Text,
    Meta(description="Seconds, or text, after which the attempt has failed."),
]


class LeaseBody(Body, frozen=True):
    """
    A request to lease due firings of one queue.
    """

    queue: Annotated[str, Meta(min_length=1, max_length=2048, description="The `handler` of its jobs.")]
    limit: Annotated[int, Meta(ge=1, le=LEASES_MAX, description="How many at most.")] = 1
    wait: Annotated[
        Annotated[float, Meta(ge=0, le=WAIT_MAX_S)] | Text, Meta(description="Seconds, or text, to wait for the first.")
    ] = 20.0
    seconds: LeaseSpan = 60.0


class AckBody(Body, frozen=True):
    """
    A firing to acknowledge as done.
    """

    fire_id: FireId


class NackBody(Body, frozen=True):
    """
    A failed firing, and either the delay before the next attempt, or a flag that forbids another attempt.
    """

    fire_id: FireId
    delay: Annotated[Delay | None, Meta(description="Seconds, or text; null for what the job's policy says.")] = None
    error: Annotated[str, Meta(max_length=2000, description="What went wrong; kept with the job.")] | None = None
    is_dead: Annotated[bool, Meta(description="Park the job as a dead letter. Not together with `delay`.")] = False


class ReleaseBody(Body, frozen=True):
    """
    A firing to release, and the delay until it is due again.
    """

    fire_id: FireId
    delay: Annotated[Delay | None, Meta(description="Seconds, or text; null for now.")] = None


class ExtendBody(Body, frozen=True):
    """
    A lease to extend, its new length, and a report of the firing's progress.
    """

    fire_id: FireId
    seconds: LeaseSpan = 60.0
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=NOTE_MAX)] = ""
