"""
Declares a manifest: creates, changes and cancels its recurring jobs, in one commit per partition (part of a store).

The manifest and its jobs are read, and written on condition that no other declaration came in between. Exactly one of
several concurrent declarations takes effect. To change or cancel a running job, the client first asks the job's owner
whether the attempt has started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from tickwheel.jobs.declaration import (
    Declaration,
    Declared,
    DeclaredJob,
    digest_of,
    outcome_of,
    part_of,
    rules_of,
)
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import (
    ANY_ATTEMPT,
    Answer,
    Cancel,
    Declare,
    Job,
    JobQuery,
    Manifest,
    Outcome,
    Set,
    Under,
    Write,
)
from tickwheel.jobs.requests import PAGE_MAX, other_manifest
from tickwheel.jobs.rules import decide
from tickwheel.stores import Partitioned, Store, partitions_of

if TYPE_CHECKING:
    from tickwheel.client.client import Client

__all__ = ["declared"]

_TRIES: Final = 20


@dataclass(slots=True)
class _Part:
    """
    The part of a declaration for one partition: the manifest before and after the declaration, and the current jobs.
    """

    store: Store
    key: str
    before: Manifest
    members: dict[str, Job]
    sets: list[Set]
    after: Manifest

    def writes(self, gone: Iterable[Cancel]) -> list[Write]:
        head = Declare(self.key, self.after, self.before.version, tuple(write.job.key for write in self.sets))
        return [head, *self.sets, *gone]

    def gone(self) -> list[Job]:
        wanted = {write.job.key for write in self.sets}
        return [self.members[key] for key in sorted(self.members) if key not in wanted]


def declared(client: Client, asked: Declaration, sets: Callable[[], list[Set]]) -> Declared:
    """
    Declare *asked*, and return the answer; blocks. *sets* makes the writes, with due times counted from now.
    """
    done: dict[str, DeclaredJob] = {}
    outcomes: list[Outcome] = []
    for _ in range(_TRIES):
        parts, newest = _parts_of(client.store, asked, sets())
        if asked.revision is not None and newest is not None and asked.revision < newest and not asked.rollback:
            return Declared(asked.manifest, Outcome.SUPERSEDED, newest)
        revision = newest if asked.revision is None else asked.revision
        if len(parts) > 1:  # each part has its own commit: the first part must not be committed if the last is refused
            _check_owners(parts)
        if asked.is_dry:
            return _in_order(_tried(parts, asked, revision, client.now_ms()), asked)
        if _is_written(client, parts, done, outcomes):
            jobs = tuple(done.values())
            return _in_order(Declared(asked.manifest, outcome_of(outcomes), revision, jobs), asked)
    what = f"the manifest {asked.manifest!r} was declared by others {_TRIES} times"
    raise StoreError(what, "try again", is_transient=True)


def _parts_of(store: Store, asked: Declaration, sets: list[Set]) -> tuple[list[_Part], int | None]:
    name, digest = asked.manifest, digest_of(sets)
    place_of = store.partition_of if isinstance(store, Partitioned) else lambda _key: 0
    parts: list[_Part] = []
    for number, (each, key) in enumerate(partitions_of(store)):
        before = next(iter(each.manifests(name)), Manifest(name))  # read first, so that a later declaration is noticed
        own = [write for write in sets if place_of(write.job.key) == number]
        parts.append(_Part(each, key, before, {job.key: job for job in _members(each, name)}, own, before))
    newest = max((part.before.revision for part in parts if part.before.revision is not None), default=None)
    revision = newest if asked.revision is None else asked.revision
    for part in parts:
        if (part.before.digest, part.before.revision) != (digest, revision):
            version = part.before.version + 1
            part.after = Manifest(name, version, digest, revision, rules_of(part.sets))
        part.sets = [part_of(write, part.after, part.before) for write in part.sets]
    return parts, newest


def _members(store: Store, manifest: str) -> Iterator[Job]:
    cursor: str | None = None
    while True:
        page = store.page(JobQuery(manifest=manifest, cursor=cursor, limit=PAGE_MAX))
        yield from page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def _check_owners(parts: Sequence[_Part]) -> None:
    for part in parts:
        for write in part.sets:
            if write.job.key not in part.members:
                job = part.store.get(write.job.key)
                if job is not None and job.manifest not in (None, write.job.manifest):
                    raise other_manifest(job)


def _is_written(client: Client, parts: Sequence[_Part], done: dict[str, DeclaredJob], outcomes: list[Outcome]) -> bool:
    """
    Write *parts*, and add the results to *done* and *outcomes*; return False if another declaration came in between.
    """
    for part in parts:
        gone = part.gone()
        cancels = [Cancel(job.key, actor=client.actor(), under=_under(part)) for job in gone]
        head, *answers = client.write_together("declare", part.writes(cancels))
        for answer in (head, *answers):  # if the writes are refused, the first answer has the reason
            if answer.outcome is Outcome.OTHER_MANIFEST and answer.job is not None:
                raise other_manifest(answer.job)
            if answer.outcome is Outcome.SUPERSEDED:
                return False  # some partitions may be written: the next try finds nothing to change there
        outcomes += [head.outcome, *(answer.outcome for answer in answers)]
        keys = [*(write.job.key for write in part.sets), *(job.key for job in gone)]
        pairs = enumerate(zip(keys, answers, strict=True))
        for number, (key, answer) in pairs:
            job = _done(key, answer, is_set=number < len(part.sets))
            if job.outcome is not Outcome.UNCHANGED or key not in done:
                done[key] = job
    return True


def _under(part: _Part) -> Under:
    return Under(part.after.name, part.after.version)


def _done(key: str, answer: Answer, *, is_set: bool) -> DeclaredJob:
    if is_set and answer.outcome is Outcome.CANCELLED:  # the new rule leaves no run
        return DeclaredJob(key, Outcome.FINISHED, None)
    return DeclaredJob(key, answer.outcome, answer.job)


def _tried(parts: Sequence[_Part], asked: Declaration, revision: int | None, now: int) -> Declared:
    jobs: list[DeclaredJob] = []
    for part in parts:
        for write in part.sets:
            key = write.job.key
            before = part.members.get(key) or part.store.get(key)
            answer, _ = decide(replace(write, over=ANY_ATTEMPT), before, now, lambda: 0)
            if answer.outcome is Outcome.OTHER_MANIFEST and answer.job is not None:
                raise other_manifest(answer.job)
            jobs.append(replace(_done(key, answer, is_set=True), before=before))
        jobs += [DeclaredJob(job.key, Outcome.CANCELLED, None, job) for job in part.gone()]
    is_new = any(part.after is not part.before for part in parts)
    outcomes = [*(job.outcome for job in jobs), Outcome.CHANGED if is_new else Outcome.UNCHANGED]
    return Declared(asked.manifest, outcome_of(outcomes), revision, tuple(jobs))


def _in_order(answer: Declared, asked: Declaration) -> Declared:
    places = {schedule.key: place for place, schedule in enumerate(asked.schedules)}
    in_order = sorted(answer.jobs, key=lambda job: (places.get(job.key, len(places)), job.key))
    return replace(answer, jobs=tuple(in_order))
