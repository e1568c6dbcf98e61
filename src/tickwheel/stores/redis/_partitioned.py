"""
A store in several partitions of a cluster.

Each partition is a `RedisStore` with its own hash tag, generations, epochs and shards. Shard 5 of partition 1 of 3 is
shard 16 of the whole store. The clock of the first partition's master decides which jobs are due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from heapq import nlargest, nsmallest
from itertools import chain
from operator import methodcaller
from typing import Any, Final, TypeVar

from tickwheel.futures import wait_for
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Adopt, Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, Write, key_of
from tickwheel.jobs.rows import PLACE
from tickwheel.loops import new_pool
from tickwheel.stores._lifetime import Lifetime
from tickwheel.stores._listener import Listener
from tickwheel.stores._sharding import bucket_of
from tickwheel.stores.contract import (
    Abilities,
    Aside,
    Cursor,
    Finding,
    LaneSet,
    Lease,
    Node,
    Scan,
    Shard,
    ShardScan,
    Skill,
)
from tickwheel.stores.redis._listener import Subscriptions
from tickwheel.stores.redis._partitioned_leases import PartitionedLeases, shard_of_all
from tickwheel.stores.redis._store import PAUSED_MAX, RedisStore, begin_to_listen

__all__ = ["PartitionedRedisStore"]

_T = TypeVar("_T")

_ASIDE_MAX: Final = 100


class PartitionedRedisStore:
    """
    Jobs in several partitions, each on its own master if the cluster has enough. A key always stays in one partition.

    A batch is one transaction in each partition. A batch with an unknown outcome may have reached only some partitions.
    """

    def __init__(self, partitions: Sequence[RedisStore], *, url: str, lease_s: float) -> None:
        self.url = url
        self.partitions = partitions
        self._count = len(partitions)
        self._lifetime = Lifetime(url)
        self._listener: Listener | None = None
        self._heard: set[int] = set()
        self._pool: ThreadPoolExecutor | None = None
        self._leases = PartitionedLeases(partitions, url, int(lease_s * 1000))
        self.abilities = _abilities(partitions)
        self._shard_of: Callable[[str], int] = self._place

    def __repr__(self) -> str:
        return f"<PartitionedRedisStore {self.url}>"

    def examine(self) -> list[Finding]:
        # An unreachable partition must not hide the findings about other partitions.
        places: dict[Finding, list[int]] = {}
        for number, partition in enumerate(self.partitions):
            try:
                found = partition.examine()
            except StoreError as error:
                found = [Finding.wrong("server", str(error))]
            for each in found:
                places.setdefault(each, []).append(number)
        return [_placed(each, numbers, self._count) for each, numbers in places.items()]

    def open(self) -> None:
        if self._listener is not None:
            return
        self._lifetime = Lifetime(self.url)
        if self._pool is None:
            self._pool = new_pool(4 * self._count, "tickwheel-partitions")
        self._each(methodcaller("open"), ((partition,) for partition in self.partitions))
        self.abilities = _abilities(self.partitions)
        self._shard_of = lru_cache(maxsize=16_384)(self._place)  # until the close: an open store gets no shards
        self._listener = Listener(lambda: Subscriptions([each.subscription() for each in self.partitions], self._heard))

    def close(self) -> None:
        if self._lifetime.is_inherited:
            return
        for partition in self.partitions:
            partition.close()
        if self._listener is not None:
            self._listener.close()
        self._leases.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None

    def now_ms(self) -> int:
        return self.partitions[0].now_ms()

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        places = self._by_partition(map(key_of, writes))
        floor = max((write.job.generation for write in writes if isinstance(write, Adopt)), default=0)
        for number, partition in enumerate(self.partitions if floor else ()):
            if number not in places:
                partition.raise_generation(floor)
        if len(places) <= 1:
            return self.partitions[next(iter(places), 0)].apply(writes)
        answers: dict[int, Answer] = {}
        for number, indexes in places.items():
            try:
                part = self.partitions[number].apply([writes[index] for index in indexes])
            except StoreError as error:
                if not answers:
                    raise
                what = f"{self.url}: {len(answers)} of {len(writes)} writes are done, and the next partition failed"
                raise StoreError(what, "do them again", is_transient=error.is_transient, is_unknown=True) from error
            answers.update(zip(indexes, part, strict=True))
        return [answers[index] for index in range(len(writes))]

    def get(self, key: str) -> Job | None:
        return self._of(key).get(key)

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        places = self._by_partition(keys).items()
        parts = ((self.partitions[number], [keys[index] for index in indexes]) for number, indexes in places)
        return list(chain.from_iterable(self._each(RedisStore.get_many, parts)))

    def page(self, query: JobQuery) -> Page:
        pages = [partition.page(query) for partition in self.partitions]
        # The page ends where the first partition's page ends: later jobs may follow jobs that are not read yet.
        end = min((page.cursor for page in pages if page.cursor is not None), default=None)
        jobs = sorted(chain.from_iterable(page.jobs for page in pages), key=lambda job: job.key)
        shown = [job for job in jobs if end is None or job.key <= end]
        if len(shown) > query.limit:
            shown = shown[: query.limit]
            end = shown[-1].key
        return Page(tuple(shown), end)

    def count(self) -> dict[str, int]:
        counts = [partition.count() for partition in self.partitions]
        return {state: sum(each[state] for each in counts) for state in counts[0]}

    def last_generation(self) -> int:
        marks = [partition.last_generation() for partition in self.partitions]
        last = max(marks)
        for partition, mark in zip(self.partitions, marks, strict=True):
            if mark < last:
                partition.raise_generation(last)
        return last

    def partition_of(self, key: str) -> int:
        return bucket_of(key) % self._count

    def shard_of(self, key: str) -> int:
        return self._shard_of(key)

    def _place(self, key: str) -> int:
        number = self.partition_of(key)
        return self._shard(number, self.partitions[number].shard_of(key))

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        partition, own = self._in(shard)
        return partition.due(own, until, after, limit)

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        owned = self._own_shards(shards)
        calls = ((self.partitions[number], own) for number, own in owned.items())
        found = self._each(lambda partition, own: partition.overdue(own, until, limit), calls)
        return {
            self._shard(number, shard): jobs
            for number, each in zip(owned, found, strict=True)
            for shard, jobs in each.items()
        }

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        return self._at_cursors(
            lambda partition, own: partition.look(own, until, limit, with_changes=with_changes), cursors
        )

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        return self._at_cursors(
            lambda partition, own: partition.scan(own, until, limit, lanes, inside=inside, rows=rows), cursors
        )

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        found = (partition.upcoming(since, until, limit) for partition in self.partitions)
        return nsmallest(limit, chain.from_iterable(found), key=PLACE)

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        counts = (partition.count_due(since, step_ms, steps) for partition in self.partitions)
        return [sum(each) for each in zip(*counts, strict=True)]

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        return self._of(key).history(key, before, limit)

    def latest_dead(self, limit: int) -> list[Job]:
        found = (partition.latest_dead(limit) for partition in self.partitions)
        return nlargest(limit, chain.from_iterable(found), key=PLACE)

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        share, gone = total // self._count, 0
        for partition in self.partitions:
            if gone < limit:
                gone += partition.prune(since, per_key, share, limit - gone)
        return gone

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        for number, indexes in self._by_partition(record.key for record in records).items():
            self.partitions[number].add_records([records[index] for index in indexes])

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        found = self._each(lambda partition: partition.acts(since, until, limit), zip(self.partitions))
        return nlargest(limit, chain.from_iterable(found), key=lambda record: (record.at, record.number))

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        self._leases.tell(methodcaller("keep_minutes", minutes))

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        # While one partition was silent, another partition got its rows. Both may have a row of the same quarter of an
        # hour.
        found: dict[tuple[int, str], Minute] = {}
        asked = self._each(lambda partition: partition.minutes(since, until, span_ms), zip(self.partitions))
        for minute in chain.from_iterable(asked):
            known = found.setdefault((minute.at, minute.owner), minute)
            if known.commits < minute.commits:
                found[minute.at, minute.owner] = minute
        return [found[place] for place in sorted(found)]

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        self._each(lambda partition: partition.forget_minutes(minutes_from, quarters_from), zip(self.partitions))

    def acquire(self, owner: str) -> list[Lease]:
        was_owner, leases = self._leases.is_owner, self._leases.ask(owner, may_take=True)
        if not was_owner and self._listener is not None:
            begin_to_listen(self._listener, self.abilities, self.url)
        return leases

    def renew(self, owner: str) -> list[Lease]:
        return self._leases.ask(owner, may_take=False)

    def release(self, owner: str) -> None:
        if self._listener is not None:
            self._listener.stop()
        self._leases.release(owner)

    def take_up(
        self,
        shard: int,
        epoch: int,
        skills: Sequence[Skill],
        limit: int,
        unreadable: Sequence[str] = (),
        *,
        unfit: Sequence[int] = (),
    ) -> list[Job]:
        partition, own = self._in(shard)
        return partition.take_up(own, epoch, skills, limit, unreadable, unfit=unfit)

    def aside(self) -> list[Aside]:
        found: dict[Skill, Aside] = {}
        for each in chain.from_iterable(partition.aside() for partition in self.partitions):
            known = found.setdefault((each.target, each.handler), each)
            if known is not each:
                both = Aside(each.target, each.handler, known.count + each.count, min(known.since, each.since))
                found[each.target, each.handler] = both
        return list(found.values())[:_ASIDE_MAX]

    def count_paused(self) -> int:
        return min(sum(partition.count_paused() for partition in self.partitions), PAUSED_MAX)

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        of_record = None if record is None else self.partition_of(record.key)
        were_paused = [
            partition.set_scope(scope, pause, record if number == of_record else None)
            for number, partition in enumerate(self.partitions)
        ]
        return any(were_paused)

    def scopes(self) -> list[Pause]:
        # Every partition has all scopes: a silent partition does not prevent reading them.
        asked = [each for number, each in enumerate(self.partitions) if number not in self._leases.silent]
        found: dict[str, Pause] = {}
        errors: list[StoreError] = []
        for partition in asked or self.partitions:
            try:
                found |= {pause.scope: pause for pause in partition.scopes()}
            except StoreError as error:
                errors.append(error)
        if len(errors) == len(asked or self.partitions):
            raise errors[0]
        return sorted(found.values(), key=lambda pause: pause.scope)

    def manifests(self, name: str | None = None) -> list[Manifest]:
        # Each partition has its own record of a manifest, and a declaration compares versions in each.
        found: dict[str, Manifest] = {}
        for manifest in chain.from_iterable(partition.manifests(name) for partition in self.partitions):
            known = found.setdefault(manifest.name, manifest)
            if known.version < manifest.version:
                found[manifest.name] = manifest
        return sorted(found.values(), key=lambda manifest: manifest.name)

    def shards(self) -> list[Shard]:
        found = [
            replace(shard, number=self._shard(number, shard.number))
            for number, partition in enumerate(self.partitions)
            for shard in partition.shards()
        ]
        return sorted(found, key=lambda shard: shard.number)

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        self._leases.tell(methodcaller("report", owner, figures))

    def nodes(self) -> list[Node]:
        found: dict[str, Node] = {}
        for node in chain.from_iterable(partition.nodes() for partition in self.partitions):
            known = found.setdefault(node.owner, node)
            if (node.heard_at or 0) > (known.heard_at or 0):
                found[node.owner] = node
        return sorted(found.values(), key=lambda node: node.owner)

    def wait_for_change(self, timeout_s: float) -> bool:
        return self._listener is not None and self._listener.wait(timeout_s)

    def heard(self) -> frozenset[int]:
        found = frozenset(self._heard or range(self._count))
        self._heard.clear()
        return found

    def wake(self) -> None:
        if self._listener is not None:
            self._listener.wake()

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        return set().union(*(partition.request_withdrawal(own) for partition, own in self._divided(jobs)))

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        own = self._own_shards(shards)
        return [job for number, those in own.items() for job in self.partitions[number].withdrawal_requests(those)]

    def report_started(self, jobs: Sequence[Job]) -> None:
        for partition, own in self._divided(jobs):
            partition.report_started(own)

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        found: dict[int, bool] = {}
        for partition, own in self._divided(jobs):
            found |= partition.attempts(own)
        return found

    def _of(self, key: str) -> RedisStore:
        return self.partitions[self.partition_of(key)]

    def _in(self, shard: int) -> tuple[RedisStore, int]:
        return self.partitions[shard % self._count], shard // self._count

    def _shard(self, number: int, own: int) -> int:
        return shard_of_all(number, own, self._count)

    def _own_shards(self, shards: Sequence[int]) -> dict[int, list[int]]:
        own: defaultdict[int, list[int]] = defaultdict(list)
        for shard in shards:
            own[shard % self._count].append(shard // self._count)
        return own

    def _by_partition(self, keys: Iterable[str]) -> dict[int, list[int]]:
        places: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            places.setdefault(self.partition_of(key), []).append(index)
        return places

    def _at_cursors(
        self, ask: Callable[[RedisStore, Sequence[Cursor]], Sequence[_T]], cursors: Sequence[Cursor]
    ) -> list[_T]:
        there: dict[int, list[Cursor]] = {}
        for cursor in cursors:
            there.setdefault(cursor.shard % self._count, []).append(cursor)
        calls = [
            (self.partitions[number], [replace(cursor, shard=cursor.shard // self._count) for cursor in own])
            for number, own in there.items()
        ]
        found: dict[int, _T] = {}
        for own, answers in zip(there.values(), self._each(ask, calls), strict=True):
            found.update(zip((cursor.shard for cursor in own), answers, strict=True))
        return [found[cursor.shard] for cursor in cursors]

    def _each(self, call: Callable[..., _T], arguments: Iterable[tuple[Any, ...]]) -> list[_T]:
        several = list(arguments)
        if len(several) < 2 or self._pool is None:  # noqa: PLR2004  one partition
            return [call(*each) for each in several]
        under_way = [self._pool.submit(call, *each) for each in several]
        for each in under_way:
            wait_for(each, None)
        return [each.result() for each in under_way]

    def _divided(self, jobs: Sequence[Job]) -> list[tuple[RedisStore, list[Job]]]:
        places = self._by_partition(job.key for job in jobs)
        return [(self.partitions[number], [jobs[index] for index in own]) for number, own in places.items()]


def _placed(finding: Finding, numbers: Sequence[int], count: int) -> Finding:
    if len(numbers) == count:
        return finding
    named = f"partition{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))} of {count}"
    return finding._replace(text=f"{named}: {finding.text}")


def _abilities(partitions: Sequence[RedisStore]) -> Abilities:
    each, total = partitions[0].abilities, len(partitions)
    assert each.first_tail is not None
    windows = dict.fromkeys(partition.abilities.loss_window for partition in partitions)
    whole = "; ".join(filter(None, windows))
    return replace(each, loss_window=whole, first_tail=each.first_tail * total, partitions=total)
