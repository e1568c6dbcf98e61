"""
The writes of one batch: builds the arguments of the script `apply` and parses its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tickwheel.jobs.model import Adopt, Answer, Job, Set, State, Write
from tickwheel.stores._manifests import Manifests
from tickwheel.stores._onces import Kept, Onces
from tickwheel.stores._plan import FIRINGS, Differences, Plan, WrongGuessError
from tickwheel.stores.redis._blob import Row, blob_of, place_of, running_mark
from tickwheel.stores.redis._history import packed_records
from tickwheel.stores.redis._manifests import changes, manifest_of
from tickwheel.stores.redis._partition import Partition
from tickwheel.stores.redis._scripts import packed, packed_lists

__all__ = ["Batch", "Shards", "shard_of_row"]

Shards: TypeAlias = tuple[Callable[[str], int], Callable[[str], int]]
"""Two functions that return the shard of a key: the current shard, and the shard when the store was created."""

_SAME_FIRING = 16
"""Length in bytes of a due time and a generation, with which the stored form of a job begins (see `_blob`)."""


class Batch:
    def __init__(
        self,
        writes: Sequence[Write],
        epochs: Mapping[int, int],
        shards: Shards,
        partition: Partition,
        *,
        is_guessing: bool,
    ) -> None:
        self._shard_of, self._first_shard_of = shards
        self._partition = partition
        shard_of = self._shard_of
        self._plan = Plan.of(writes, epochs, shard_of, is_guessing=is_guessing)
        for jobs in (self._plan.begins, self._plan.ends):
            if len({job.key for job in jobs}) < len(jobs):
                raise WrongGuessError  # the server checks all writes before it changes any
        firings = [write for write in writes if isinstance(write, FIRINGS)]
        spoken_of = {shard_of(write.job.key) for write in firings}
        if self._plan.away or not {write.epoch for write in firings} <= set(epochs.values()):
            spoken_of |= set(epochs)
        self._assumed = {shard: epochs.get(shard) for shard in spoken_of}
        self._seen = 0
        self._drawn = 0
        self._differences = Differences()
        self._rows: dict[str, Row] = {}
        self._kept: dict[str, bytes] = {}
        self._manifests: Manifests | None = None
        self._texts: dict[tuple[str, str], bytes] = {}
        self._onces: Onces | None = None
        self.is_growing = any(isinstance(write, (Set, Adopt)) for write in writes)

    def keys(self) -> list[str]:
        return self._plan.keys()

    def manifests(self) -> list[str]:
        return sorted(self._plan.manifests)

    def tokens(self) -> list[str]:
        return sorted(self._plan.tokens)

    def decide(
        self, rows: list[Row], now: int, generation: int, texts: Sequence[bytes], kept: Sequence[Sequence[bytes]]
    ) -> None:
        if kept:
            self._texts = {
                (token, part.decode()): text
                for token, facts in zip(self.tokens(), kept, strict=True)
                for part, text in zip(facts[::2], facts[1::2], strict=True)
            }
            self._onces = Onces(((place, Kept.from_bytes(text)) for place, text in self._texts.items()), now)
        if texts:
            self._kept = dict(zip(self.manifests(), texts, strict=True))
            self._manifests = Manifests({name: manifest_of(name, text) for name, text in self._kept.items()})
        self._rows = {row.job.key: row for row in rows}
        self._seen = max(generation, self._partition.aligned(self._plan.floor))
        self._differences = self._plan.decide(
            {row.job.key: row.job for row in rows},
            now,
            self._next_generation,
            {row.job.key: shard_of_row(row, self._first_shard_of) for row in rows if _is_due_somewhere(row.job)},
            manifests=self._manifests,
            onces=self._onces,
        )

    def arguments(self, owner: str) -> list[bytes | int]:
        plan = self._plan
        begins: dict[int, list[bytes]] = {}
        for job in plan.begins:
            shard = self._shard_of_firing(job.key)
            begins.setdefault(shard, [b"%d" % shard]).append(place_of(job) + job.key.encode())
        ends = [
            part
            for job in plan.ends
            for part in (
                job.key.encode(),
                place_of(job)[:_SAME_FIRING] + self._shard_of_firing(job.key).to_bytes(2, "big"),
            )
        ]
        assumed = [
            part
            for shard, epoch in self._assumed.items()
            for part in (b"%d" % shard, b"" if epoch is None else b"%d" % epoch)
        ]
        return [
            owner.encode(),
            self._seen,
            self._drawn,
            packed(assumed),
            packed_lists(begins.values()),
            packed(ends),
            packed(self._others()),
            packed(packed_records(plan.records())),
            packed(changes(self._kept, {} if self._manifests is None else self._manifests.changed)),
            packed(self._answers_to_keep()),
        ]

    def _answers_to_keep(self) -> list[bytes]:
        parts: list[bytes] = []
        for place, kept in () if self._onces is None else self._onces.changed.items():
            token, part = place
            after, until = (b"", b"0") if kept is None else (kept.to_bytes(), b"%d" % kept.until)
            parts += (token.encode(), part.encode(), self._texts.get(place, b""), after, until)
        return parts

    def answers(self, shift: int) -> list[Answer]:
        answers = self._plan.answers
        if shift:
            answers = [self._shifted(answer, shift) for answer in answers]
        return answers

    def _next_generation(self) -> int:
        self._drawn += self._partition.total
        return self._seen + self._drawn

    def _others(self) -> list[bytes]:
        differences = self._differences
        parts: list[bytes] = []
        for old in differences.gone:
            parts.extend(self._change(old.key, None))
        for _, job in differences.changed:
            parts.extend(self._change(job.key, job))
        for job in differences.new:
            parts.extend(self._change(job.key, job))
        return parts

    def _change(self, key: str, job: Job | None) -> tuple[bytes, ...]:
        first = self._first_shard_of(key)
        row = self._rows.get(key)
        before = (row.head, row.running) if row else (b"", b"")
        after = (b"", b"")
        if job is not None:
            is_running = job.state is State.RUNNING
            shard = self._shard_of_firing(key) if is_running else self._shard_of(key)
            is_named = shard != first and _is_due_somewhere(job)
            after = (blob_of(job, shard if is_named else None), running_mark(job, shard) if is_running else b"")
        return (key.encode(), b"%d" % first, *before, *after)

    def _shard_of_firing(self, key: str) -> int:
        shard = self._plan.away.get(key)
        return self._shard_of(key) if shard is None else shard

    def _shifted(self, answer: Answer, shift: int) -> Answer:
        job = answer.job
        if job is None or job.generation <= self._seen:
            return answer
        return Answer(answer.outcome, replace(job, generation=job.generation + shift))


def shard_of_row(row: Row, first_shard_of: Callable[[str], int]) -> int:
    return first_shard_of(row.job.key) if row.shard is None else row.shard


def _is_due_somewhere(job: Job) -> bool:
    return job.state is State.RUNNING or job.is_scheduled
