"""
Tests of declaring a manifest (a named list of recurring jobs). Its writes take effect together or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tickwheel.jobs.model import (
    ANY_ATTEMPT,
    Adopt,
    Answer,
    Cancel,
    Declare,
    Job,
    Manifest,
    Outcome,
    Set,
    SetMode,
    Settled,
    State,
    Under,
    Write,
)
from tickwheel.jobs.recurrence import Interval, Recurrence
from tickwheel.testing.store_suite._base import Rig, StoreTests, everything

HOUR: Final = 3_600_000
_NAME: Final = "billing"
_TAG: Final = "{billing}"
"""Part of each key. It puts all keys into the same partition of the store."""
A, B, C = f"{_TAG}a", f"{_TAG}b", f"{_TAG}c"


class DeclareTests(StoreTests):
    def test_a_declaration(self) -> None:
        with self.rig() as rig:
            first = Manifest(_NAME, 1, "one", 7, '{"a": "rule"}')
            answers = _declare(rig, first, 0, A, B)
            assert _outcomes(answers) == [Outcome.CHANGED, Outcome.CREATED, Outcome.CREATED]
            assert rig.store.manifests() == rig.store.manifests(_NAME) == [first]
            jobs = everything(rig.store)
            assert [(job.key, job.manifest) for job in jobs] == [(A, _NAME), (B, _NAME)]
            answers = _declare(rig, first, 1, A, B)
            assert _outcomes(answers) == [Outcome.UNCHANGED] * 3
            assert everything(rig.store) == jobs
            second = Manifest(_NAME, 2, "two")
            answers = _declare(rig, second, 1, B, C, gone=[A])
            expected = [Outcome.CHANGED, Outcome.UNCHANGED, Outcome.CREATED, Outcome.CANCELLED]
            assert _outcomes(answers) == expected
            assert [job.key for job in everything(rig.store)] == [B, C]
            assert rig.store.manifests() == [second]
            assert rig.store.manifests("another") == []

    def test_of_two_the_second_is_superseded(self) -> None:
        """
        If two declarations replace the same version of a manifest, all writes of the second are refused.
        """
        with self.rig() as rig:
            _declare(rig, Manifest(_NAME, 1, "one"), 0, A)
            before = everything(rig.store)
            for version, expected in ((1, 0), (2, 0), (3, 2)):
                answers = _declare(rig, Manifest(_NAME, version, "other"), expected, B, gone=[A])
                assert _outcomes(answers) == [Outcome.SUPERSEDED] * 3, version
            late = _set(rig, A, Manifest(_NAME, 2), every=5 * HOUR), Cancel(A, under=Under(_NAME, 0))
            assert _outcomes(rig.store.apply(late)) == [Outcome.SUPERSEDED] * 2
            assert everything(rig.store) == before
            assert [manifest.version for manifest in rig.store.manifests()] == [1]
            both = [*_writes(rig, Manifest(_NAME, 2), 1, B), *_writes(rig, Manifest(_NAME, 2), 1, C)]
            answers = rig.store.apply(both)
            assert _outcomes(answers) == [Outcome.CHANGED, Outcome.CREATED, *[Outcome.SUPERSEDED] * 2]

    def test_a_key_of_another_manifest(self) -> None:
        """
        If a declaration has a key of another manifest, nothing is declared.
        """
        with self.rig() as rig:
            _declare(rig, Manifest("first", 1), 0, A)
            before = rig.get(A)
            answers = _declare(rig, Manifest("second", 1), 0, B, A)
            assert _outcomes(answers) == [Outcome.OTHER_MANIFEST, *[Outcome.SUPERSEDED] * 2]
            assert answers[0].job == before
            assert everything(rig.store) == [before]
            assert [manifest.name for manifest in rig.store.manifests()] == ["first"]
            named = replace(_job(rig, A, 5 * HOUR), manifest="second")
            assert rig.do(Set(named)) == Answer(Outcome.OTHER_MANIFEST, before)
            taken = Cancel(A, under=Under("second", 0))
            assert rig.do(taken).outcome is Outcome.NOT_FOUND
            assert rig.do(Set(_job(rig, A, 5 * HOUR))).outcome is Outcome.CHANGED
            assert rig.get(A).manifest == "first"

    def test_a_key_of_none_is_taken_in(self) -> None:
        with self.rig() as rig:
            jobs = {
                key: rig.pending(key, HOUR, recurrence=_rule(rig)) for key in _keys("waits", "paused", "runs", "dead")
            }
            rig.pause(f"{_TAG}paused", "for now")
            for key in _keys("runs", "dead"):
                assert rig.begin(jobs[key]) is Outcome.BEGUN
            rig.settle(jobs[f"{_TAG}dead"], Settled.DEAD, attempt=1, error="no")
            before = {key: rig.get(key) for key in jobs}
            answers = _declare(rig, Manifest(_NAME, 1), 0, *jobs)
            expected = [Outcome.CHANGED, *[Outcome.UNCHANGED] * 3, Outcome.DEAD]
            assert _outcomes(answers) == expected
            for key, job in before.items():
                assert rig.get(key) == replace(job, manifest=_NAME)
            assert rig.settle(jobs[f"{_TAG}runs"], Settled.DONE, due_at=rig.now + 2 * HOUR).outcome is Outcome.SETTLED

    def test_a_running_job(self) -> None:
        """
        A running attempt completes even if a declaration changes or cancels its job.
        """
        with self.rig() as rig:
            rule = _rule(rig)
            jobs = [rig.running(key, 0, recurrence=rule, manifest=_NAME) for key in (A, B)]
            first = _declare(rig, Manifest(_NAME, 1), 0, A, every=5 * HOUR, gone=[B])
            assert _outcomes(first) == [Outcome.CHANGED, Outcome.TOO_LATE, Outcome.TOO_LATE]
            late = [replace(write, over=ANY_ATTEMPT) for write in _parts(rig, A, gone=[B])]
            assert _outcomes(rig.store.apply(late)) == [Outcome.CHANGED, Outcome.CANCELLED]
            assert rig.get(A).state is State.RUNNING
            done = rig.settle(jobs[0], Settled.DONE, due_at=rig.now + HOUR, recurrence=rule).job
            assert done is not None
            assert done.manifest == _NAME
            assert Recurrence.from_text(done.recurrence or "").rule.tz == "UTC"
            assert rig.settle(jobs[1], Settled.DONE).outcome is Outcome.NOT_FOUND

    def test_the_manifest_stays(self) -> None:
        with self.rig() as rig:
            _declare(rig, Manifest(_NAME, 1), 0, A)
            rule = rig.get(A).recurrence
            rig.move(A, 5)
            rig.pause(A, "for now")
            assert rig.get(A).manifest == _NAME
            rig.resume(A)
            for how, fields in (
                (Settled.AGAIN, {"attempt": 1, "due_at": rig.now + 9, "error": "no"}),
                (Settled.DONE, {"due_at": rig.now + HOUR, "recurrence": rule}),
                (Settled.DEAD, {"attempt": 1, "error": "no"}),
            ):
                job = rig.get(A)
                assert rig.begin(job) is Outcome.BEGUN
                rig.settle(job, how, **fields)
                assert rig.get(A).manifest == _NAME, how
            assert rig.do(Set(_job(rig, A, 2 * HOUR), SetMode.RESTART)).outcome is Outcome.CREATED
            assert rig.get(A).manifest == _NAME
            assert rig.do(Set(_job(rig, A, 2 * HOUR), SetMode.RESTART)).outcome is Outcome.RESTARTED
            assert rig.get(A).manifest == _NAME
            kept = rig.get(A)
            rig.cancel(A)
            assert rig.do(Adopt(kept)).outcome is Outcome.CREATED
            assert rig.get(A).manifest == _NAME
            rig.set(A, 5)
            assert rig.get(A).manifest is None
            assert everything(rig.store, manifest=_NAME) == []

    def test_listed_by_manifest(self) -> None:
        with self.rig() as rig:
            keys = [f"{_TAG}job {number:02}" for number in range(25)]
            _declare(rig, Manifest(_NAME, 1), 0, *keys)
            _declare(rig, Manifest("other", 1), 0, *_keys("job 5", "job x"))
            rig.pending(f"{_TAG}job 6", recurrence=_rule(rig))
            rig.pause(keys[3])
            assert rig.begin(rig.get(keys[4])) is Outcome.BEGUN
            job = rig.get(keys[5])
            assert rig.begin(job) is Outcome.BEGUN
            rig.settle(job, Settled.DEAD, attempt=1)
            for query, expected in (
                ({}, keys),
                ({"limit": 7}, keys),
                ({"recurring": True}, keys),
                ({"prefix": f"{_TAG}job 1"}, keys[10:20]),
                ({"contains": "4", "limit": 1}, [keys[4], keys[14], keys[24]]),
                ({"paused": True}, [keys[3]]),
                ({"state": State.RUNNING}, [keys[4]]),
                ({"state": State.DEAD}, [keys[5]]),
                ({"state": State.PENDING}, [*keys[:4], *keys[6:]]),
            ):
                found = everything(rig.store, manifest=_NAME, **query)
                assert [job.key for job in found] == expected, query
            assert everything(rig.store, manifest="another") == []

    def test_no_series_again(self) -> None:
        with self.rig() as rig:
            manifest = Manifest(_NAME, 1)
            head = Declare(A, manifest, 0, (A, B))
            rig.pending(B, recurrence=_rule(rig), manifest=_NAME)
            sets = [replace(_set(rig, key, manifest, every=2 * HOUR), is_over=True) for key in (A, B)]
            assert _outcomes(rig.store.apply([head, *sets])) == [Outcome.CHANGED, Outcome.FINISHED, Outcome.CHANGED]
            assert rig.store.get(A) is None


def _keys(*names: str) -> list[str]:
    return [f"{_TAG}{name}" for name in names]


def _rule(rig: Rig, every: int = HOUR) -> str:
    return Recurrence(Interval(every, rig.now + every)).to_text()


def _job(rig: Rig, key: str, every: int) -> Job:
    return Job(key, 0, rig.now + every, recurrence=_rule(rig, every))


def _set(rig: Rig, key: str, manifest: Manifest, *, every: int) -> Set:
    job = replace(_job(rig, key, every), manifest=manifest.name)
    return Set(job, under=Under(manifest.name, manifest.version))


def _parts(rig: Rig, *keys: str, gone: Sequence[str] = ()) -> list[Set | Cancel]:
    manifest = Manifest(_NAME, 1)
    sets: list[Set | Cancel] = [_set(rig, key, manifest, every=5 * HOUR) for key in keys]
    return [*sets, *(Cancel(key, under=Under(_NAME, 1)) for key in gone)]


def _writes(
    rig: Rig, manifest: Manifest, if_version: int, *keys: str, every: int = HOUR, gone: Sequence[str] = ()
) -> list[Write]:
    head = Declare(f"{_TAG}any", manifest, if_version, keys)
    under = Under(manifest.name, manifest.version)
    sets = [_set(rig, key, manifest, every=every) for key in keys]
    return [head, *sets, *(Cancel(key, under=under) for key in gone)]


def _declare(
    rig: Rig, manifest: Manifest, if_version: int, *keys: str, every: int = HOUR, gone: Sequence[str] = ()
) -> list[Answer]:
    return rig.store.apply(_writes(rig, manifest, if_version, *keys, every=every, gone=gone))


def _outcomes(answers: Sequence[Answer]) -> list[Outcome]:
    return [answer.outcome for answer in answers]
