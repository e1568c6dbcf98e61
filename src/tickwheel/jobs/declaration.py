from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from typing import Final

from tickwheel.calendar import Dates
from tickwheel.jobs import checks
from tickwheel.jobs.definition import Definition
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Job, Manifest, Outcome, Set, SetMode, Under, record
from tickwheel.jobs.recurrence import Interval, Recurrence
from tickwheel.jobs.requests import SetRequest, check_manifest, flag, spread

__all__ = [
    "MANIFEST_MAX",
    "Declaration",
    "Declared",
    "DeclaredJob",
    "Schedule",
    "check_schedule",
    "checked_declaration",
    "digest_of",
    "outcome_of",
    "part_of",
    "rules_of",
]

MANIFEST_MAX: Final = 10_000
"""Maximum number of jobs in one manifest. A manifest is declared in one commit."""
_MODES: Final = ("max_wait", "if_generation")
_ANY_DATE: Final = date(1970, 1, 1)
_QUIET: Final = frozenset((Outcome.UNCHANGED, Outcome.DEAD, Outcome.FINISHED))


class Schedule(SetRequest):
    """
    One recurring job of a manifest, for `declare`: a key, a call, `every=` or `cron=`, and other arguments of `set`.

    `mode=`, `max_wait=` and `if_generation=` are not allowed, because a declaration describes the desired state.
    """

    __slots__ = ()


@record
class DeclaredJob:
    """
    The outcome of a declaration for one job.

    Attributes:
        outcome: CREATED, UNCHANGED, CHANGED, DEAD (the job stays a dead letter), FINISHED (the rule has no further
            run), REPLACED (the job was a one-time job) or CANCELLED (the manifest no longer contains the job).
        job: The resulting job, or None. For a cancelled job, its last state. In a dry run, the expected job.
        before: In a dry run, the current job, or None.
    """

    key: str
    outcome: Outcome
    job: Job | None
    before: Job | None = None


@record
class Declared:
    """
    The answer to a declaration.

    Attributes:
        outcome: CHANGED; UNCHANGED, if nothing had to be written; or SUPERSEDED, if a newer revision was already
            declared, so that nothing was written.
        revision: The current revision, or None.
        jobs: The outcome of each job: first the jobs of the manifest, in its order; then the cancelled jobs, by key.
    """

    manifest: str
    outcome: Outcome
    revision: int | None
    jobs: tuple[DeclaredJob, ...] = ()

    @property
    def outcomes(self) -> Mapping[str, Outcome]:
        """
        The outcome for each key.
        """
        return {job.key: job.outcome for job in self.jobs}


@dataclass(frozen=True, slots=True)
class Declaration:
    manifest: str
    schedules: Sequence[SetRequest]
    revision: int | None = None
    rollback: bool = False
    allow_empty: bool = False
    is_dry: bool = False

    def options(self) -> dict[str, int | bool | None]:
        return {
            "revision": self.revision,
            "rollback": self.rollback,
            "allow_empty": self.allow_empty,
            "dry_run": self.is_dry,
        }


def checked_declaration(
    schedules: Iterable[SetRequest],
    manifest: str,
    *,
    revision: int | None = None,
    rollback: bool = False,
    allow_empty: bool = False,
    dry_run: bool = False,
) -> Declaration:
    check_manifest(manifest)
    if isinstance(schedules, (SetRequest, str)):
        raise InvalidJobError("schedules", schedules, "pass a list of Schedule")
    found, seen = [spread(each) for each in schedules], set[str]()
    if len(found) > MANIFEST_MAX:
        raise InvalidJobError("schedules", len(found), f"a manifest has at most {MANIFEST_MAX} jobs: make two of it")
    for schedule in found:
        check_schedule(schedule, manifest)
        if schedule.key in seen:
            raise InvalidJobError("key", schedule.key, "it is used twice: give each job its own key")
        seen.add(schedule.key)
    is_rollback, may_be_empty = flag("rollback", rollback), flag("allow_empty", allow_empty)
    if not found and not may_be_empty:
        remedy = "an empty list cancels all jobs of the manifest: pass allow_empty=True if it should"
        raise InvalidJobError("schedules", found, remedy)
    if revision is not None:
        _check_revision(revision)
    elif is_rollback:
        raise InvalidJobError("rollback", rollback, "pass revision= as well: the one to go back to")
    return Declaration(manifest, found, revision, is_rollback, may_be_empty, flag("dry_run", dry_run))


def _check_revision(revision: object) -> None:
    if type(revision) is not int or not 0 <= revision <= checks.NUMBER_MAX:
        remedy = f"pass an integer in 0..{checks.NUMBER_MAX} that grows with each release, such as a build number"
        raise InvalidJobError("revision", revision, remedy)


def check_schedule(schedule: SetRequest, manifest: str) -> None:
    if not hasattr(schedule, "keep_payload"):  # items of the service have the same fields, but no such method
        raise InvalidJobError("schedule", schedule, "pass Schedule(key, task.of(...), every=...)")
    checks.check_key(schedule.key)
    if schedule.every is None and schedule.cron is None:
        raise InvalidJobError("every", None, f"a manifest has recurring jobs: give {schedule.key!r} every= or cron=")
    if schedule.manifest not in (None, manifest):
        raise InvalidJobError("manifest", schedule.manifest, f"{schedule.key!r} is declared for {manifest!r}")
    if schedule.mode != SetMode.REPLACE:
        raise InvalidJobError("mode", schedule.mode, "it is for set: leave it out, and call set to restart a series")
    for name in _MODES:
        if getattr(schedule, name) is not None:
            raise InvalidJobError(name, getattr(schedule, name), "it is for set: leave it out")


def part_of(write: Set, manifest: Manifest, before: Manifest) -> Set:
    """
    Return *write* as a part of the declaration of *manifest*. A series that ended under *before* is not created again.
    """
    rule = json.loads(before.rules).get(write.job.key)
    wanted = Recurrence.from_text(write.job.recurrence or "")
    has_been = rule is not None and Recurrence.from_text(rule).has_same_runs(wanted, has_phase=write.has_phase)
    return replace(
        write,
        job=replace(write.job, manifest=manifest.name),
        is_over=write.is_over or has_been,
        under=Under(manifest.name, manifest.version),
    )


def rules_of(writes: Iterable[Set]) -> str:
    texts = {write.job.key: write.job.recurrence or "" for write in writes}
    return json.dumps({key: text for key, text in texts.items() if Recurrence.from_text(text).max_runs is not None})


def digest_of(writes: Iterable[Set]) -> str:
    lines = sorted(f"{write.job.key}\n{_stated(write)}\n{write.keeps_payload}" for write in writes)
    return sha256("\n".join(lines).encode()).hexdigest()[:32]


def _stated(write: Set) -> str:
    definition = Definition.of(write.job, has_phase=write.has_phase)
    series = replace(definition.series, nominal_at=None)
    if not write.has_phase:  # without a requested phase, the anchor is the moment of the first start
        if isinstance(series.rule, Interval):
            series = replace(series, rule=replace(series.rule, anchor_at=0))
        elif isinstance(series.rule, Dates):
            series = replace(series, rule=replace(series.rule, anchor_on=_ANY_DATE))
    return definition._replace(series=series).to_text()


def outcome_of(outcomes: Iterable[Outcome]) -> Outcome:
    return Outcome.UNCHANGED if _QUIET.issuperset(outcomes) else Outcome.CHANGED
