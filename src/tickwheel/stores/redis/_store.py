from __future__ import annotations

import json
import logging
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, State, Write
from tickwheel.jobs.rows import PLACE, in_int64
from tickwheel.jobs.rules import is_counted
from tickwheel.stores._deadlines import LONG_CALLS, call_s, calls_of
from tickwheel.stores._listener import Listener
from tickwheel.stores._plan import WrongGuessError
from tickwheel.stores._reports import KEPT_MS
from tickwheel.stores._sharding import sharding
from tickwheel.stores._silence import Silence
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
from tickwheel.stores.redis import _history, _manifests, _minutes, _scopes, _withdrawals
from tickwheel.stores.redis._batch import Batch, shard_of_row
from tickwheel.stores.redis._blob import Row, instant, read_rows
from tickwheel.stores.redis._connections import Connections
from tickwheel.stores.redis._examine import findings_of
from tickwheel.stores.redis._listener import RedisSubscription
from tickwheel.stores.redis._look import before, just_after, look, scan
from tickwheel.stores.redis._paging import latest_dead, page
from tickwheel.stores.redis._partition import WHOLE, Partition
from tickwheel.stores.redis._scripts import packed
from tickwheel.stores.redis._server import check_server, facts_of, make_schema

__all__ = ["PAUSED_MAX", "RedisStore", "begin_to_listen"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")
_TRIES: Final = 50
"""Maximum number of tries to write a batch whose keys are changed by other writers between read and write."""

_FIRST_TAIL: Final = 40_000
"""First shard number of tails, as in scripts/lease.lua."""
PAUSED_MAX: Final = 10_000
"""Counting of paused jobs ends at this number, as in the other stores."""
_BYTES_MAX: Final = 256 << 20
"""Maximum size of a batch. The server disconnects a client that sends a gibibyte."""


class RedisStore:
    """
    Jobs in one database of a server. Any number of processes fire them, and each leases some shards.
    """

    def __init__(
        self,
        location: str,
        *,
        url: str,
        shards: int | None = None,
        lease_s: float = 10.0,
        prefix: str = "tickwheel",
        replicas: int = 0,
        partition: Partition = WHOLE,
    ) -> None:
        """
        Store the location of the server, without connecting.

        *url* is the location with the password masked. *shards* is the minimum number of shards; None keeps the
        existing number, or creates 16. A process needs a shard to fire jobs. A lease ends *lease_s* seconds after its
        last renewal. *replicas* is the number of replicas that must receive a write before it is answered.
        """
        self.url = url
        self.abilities = _abilities("what the server's settings say, which are read on open")
        self._location, self._wanted_shards, self._lease_ms = location, shards, int(lease_s * 1000)
        self._base, self._replicas = f"{{{partition.tag(prefix)}}}", replicas
        self._partition = partition
        self._questions = f"{self._base}:questions"
        self._connections: Connections | None = None
        self._listener: Listener | None = None
        self._shape = 1, 1
        self._shard_of = self._first_shard_of = sharding(1)
        self._epochs: dict[int, int] = {}
        """The last known epochs of shards. An outdated epoch does no harm, because the server checks epochs."""
        self._owner: str | None = None
        self._silence, self._has_leases = Silence(lease_s), False

    def __repr__(self) -> str:
        return f"<RedisStore {self.url}>"

    def _connect(self) -> Connections:
        call = call_s(self._lease_ms / 1000)
        return Connections(self._location, self.url, self._base, self._replicas, self._partition, call_s=call)

    def examine(self) -> list[Finding]:
        connections = self._connect()
        try:
            return list(findings_of(facts_of(connections), self._replicas))
        finally:
            connections.close()

    def open(self) -> None:
        if self._connections is not None:
            return
        connections = self._connect()
        try:
            window = check_server(connections, self.url, self._replicas)
            there, first = self._shape = make_schema(connections, self.url, self._wanted_shards)
            self._shard_of, self._first_shard_of = sharding(there), sharding(first)
            connections.notice_server()
        except BaseException:
            connections.close()
            raise
        self.abilities = _abilities(window)
        self._connections = connections
        if self._partition.total == 1:
            self._listener = Listener(self.subscription)

    def close(self) -> None:
        connections = self._connections
        if connections is None or connections.lifetime.is_inherited:
            return
        if self._owner is not None:
            with suppress(StoreError):
                self.release(self._owner)
        if self._listener is not None:
            self._listener.close()
        connections.close()

    def now_ms(self) -> int:
        seconds, micros = self._open_connections().call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        connections = self._open_connections()
        connections.lifetime.check()
        if not writes:
            return []
        is_guessing = True
        for _ in range(_TRIES):
            try:
                shards = self._shard_of, self._first_shard_of
                batch = Batch(writes, self._epochs, shards, self._partition, is_guessing=is_guessing)
            except WrongGuessError:
                is_guessing = False
                continue
            verdict, *facts = self._try(connections, batch, calls_of(len(writes)))
            if verdict == b"done":
                return batch.answers(facts[0])
            if verdict == b"epochs":
                self._learn(facts)
            else:
                is_guessing = False
        what = f"{self.url}: others keep writing to jobs of the same keys"
        raise StoreError(what, "try again", is_transient=True)

    def get(self, key: str) -> Job | None:
        rows = self._read([key])[0]
        return rows[0].job if rows else None

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        return [row.job for row in self._read(keys)[0]]

    def page(self, query: JobQuery) -> Page:
        return page(self._open_connections(), query)

    def count(self) -> dict[str, int]:
        counts = self._open_connections().run("count")
        return dict(zip((state.value for state in State), counts, strict=True))

    def last_generation(self) -> int:
        return self._read([])[2]

    def shard_of(self, key: str) -> int:
        return self._shard_of(key)

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        return self._due(b"-" if after is None else just_after(after), until, limit, shard)

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        found: dict[int, list[Job]] = {}
        if not shards:
            return found
        for row in self._due_rows(b"-", until, limit, *shards):
            shard = shard_of_row(row, self._first_shard_of)
            found.setdefault(shard, []).append(row.job)
        return found

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        return look(self._open_connections(), self._owner, cursors, until, limit, with_changes=with_changes)

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        return scan(self._open_connections(), cursors, until, limit, lanes, inside=inside, rows=rows)

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        jobs = self._due(b"[" + instant(in_int64(since)), until, limit)
        return sorted(jobs, key=PLACE)[:limit]

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        bounds = [instant(in_int64(since + step_ms * step)) for step in range(steps + 1)]
        counts: list[int] = self._open_connections().run("count_due", *bounds, calls=LONG_CALLS)
        return counts

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        with self._storable():
            return _history.history(self._open_connections().call, self._base, key, before, limit)

    def latest_dead(self, limit: int) -> list[Job]:
        return latest_dead(self._open_connections(), limit)

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        return int(self._open_connections().run("prune", since, per_key, total, limit, calls=LONG_CALLS))

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        with self._storable():
            self._open_connections().run("record", *_history.packed_records(records), is_write=True)

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        return _history.acts(self._open_connections().call, self._base, since, until, limit)

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        _minutes.keep_minutes(self._open_connections().call, self._base, minutes)

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        return _minutes.minutes(self._open_connections().call, self._base, since, until, span_ms)

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        _minutes.forget_minutes(self._open_connections().call, self._base, minutes_from, quarters_from)

    def acquire(self, owner: str) -> list[Lease]:
        return self.leased(owner, may_take=True)[1]

    def renew(self, owner: str) -> list[Lease]:
        return self.leased(owner, may_take=False)[1]

    def release(self, owner: str) -> None:
        self._open_connections().run("release", owner)
        self._owner = None
        if self._listener is not None:
            self._listener.stop()

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
        names = packed(part for skill in skills for part in _name_of(skill))
        owner, parts = self._owner or "", packed(part.encode() for part in unreadable)
        numbers = packed(number.to_bytes(8, "big") for number in unfit)
        frames = self._open_connections().run(
            "take_up", shard, epoch, limit, names, owner, parts, numbers, is_write=True
        )
        return [row.job for row in read_rows(frames)]

    def aside(self) -> list[Aside]:
        reply = self._open_connections().run("aside")
        parts = zip(*(reply[start::4] for start in range(4)), strict=True)
        return [
            Aside(target.decode(), handler.decode(), int(count), int.from_bytes(place[:8], "big") - 2**63)
            for target, handler, count, place in parts
        ]

    def count_paused(self) -> int:
        paused: int = self._open_connections().call("ZCARD", f"{self._base}:paused")
        return min(paused, PAUSED_MAX)

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        with self._storable():
            return _scopes.set_scope(self._open_connections(), scope, pause, record)

    def scopes(self) -> list[Pause]:
        return _scopes.scopes(self._open_connections(), self._base)

    def manifests(self, name: str | None = None) -> list[Manifest]:
        with self._storable():
            return _manifests.manifests(self._open_connections(), self._base, name)

    def shards(self) -> list[Shard]:
        reply = self._open_connections().run("shards")
        return [
            Shard(int(number), owner.decode() or None, int(epoch), int(until) or None)
            for number, owner, epoch, until in zip(*(reply[start::4] for start in range(4)), strict=True)
        ]

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        self._open_connections().run("report", owner, json.dumps(figures), KEPT_MS, is_write=True)

    def nodes(self) -> list[Node]:
        reply = self._open_connections().run("nodes", KEPT_MS)
        return sorted(
            (
                Node(owner.decode(), int(until), int(heard_at) or None, json.loads(figures) if figures else None)
                for owner, until, heard_at, figures in zip(*(reply[start::4] for start in range(4)), strict=True)
            ),
            key=lambda node: node.owner,
        )

    def wait_for_change(self, timeout_s: float) -> bool:
        return self._listener is not None and self._listener.wait(timeout_s)

    def wake(self) -> None:
        if self._listener is not None:
            self._listener.wake()

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        call, now = self._open_connections().call, self.now_ms()
        owned = {shard.number for shard in self.shards() if shard.owner is not None}
        shards = self._shards_of(jobs)
        own = [job for job in jobs if shards[job.key] in owned]
        if own:
            _withdrawals.request(call, self._questions, own, now)
            call("SPUBLISH", f"{self._base}:news", "")
        return {job.generation for job in jobs if shards[job.key] not in owned}

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        jobs = _withdrawals.requests(self._open_connections().call, self._questions, self.now_ms())
        found = self._shards_of(jobs)
        return [job for job in jobs if found[job.key] in shards]

    def report_started(self, jobs: Sequence[Job]) -> None:
        _withdrawals.report_started(self._open_connections().call, self._questions, jobs, self.now_ms())

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        found = {row.job.key: row.job for row in self._read([job.key for job in jobs])[0]}
        counted = [job for job in jobs if is_counted(job, found.get(job.key))]
        started = _withdrawals.started(self._open_connections().call, self._questions, counted)
        return {job.generation: job.generation in started for job in counted}

    def _try(self, connections: Connections, batch: Batch, calls: int) -> list[Any]:
        with self._storable():
            keys = batch.keys()
            if keys:
                batch.decide(*self._read(keys, batch.manifests(), batch.tokens()))
            arguments = batch.arguments(self._owner or "")
        if sum(len(each) for each in arguments if isinstance(each, bytes)) > _BYTES_MAX:
            what = f"{self.url}: a batch has more than {_BYTES_MAX >> 20} MiB"
            raise StoreError(what, "write fewer large payloads at once")
        name = "apply" if batch.is_growing else "apply_freeing"
        reply: list[Any] = connections.run(name, *arguments, is_write=True, calls=calls)
        return reply

    def _learn(self, facts: list[Any]) -> None:
        for shard, epoch in zip(facts[::2], facts[1::2], strict=True):
            if epoch:
                self._epochs[int(shard)] = int(epoch)
            else:
                self._epochs.pop(int(shard), None)

    def _read(
        self, keys: Sequence[str], manifests: Sequence[str] = (), tokens: Sequence[str] = ()
    ) -> tuple[list[Row], int, int, list[bytes], list[list[bytes]]]:
        with self._storable():
            wanted = [packed(name.encode() for name in names) for names in (keys, manifests, tokens)]
        frames, now, generation, texts, kept = self._open_connections().run("read", *wanted, calls=calls_of(len(keys)))
        return read_rows(frames), int(now), int(generation), texts, kept

    def _shards_of(self, jobs: Sequence[Job]) -> dict[str, int]:
        shards = {job.key: self._shard_of(job.key) for job in jobs}
        rows = self._read(list(shards))[0] if jobs else []
        shards.update((row.job.key, shard_of_row(row, self._first_shard_of)) for row in rows)
        return shards

    def _due(self, first: bytes, until: int, limit: int, *shards: int) -> list[Job]:
        return [row.job for row in self._due_rows(first, until, limit, *shards)]

    def _due_rows(self, first: bytes, until: int, limit: int, *shards: int) -> list[Row]:
        return read_rows(self._open_connections().run("due", first, before(until), limit, *shards))

    def leased(self, owner: str, *, may_take: bool) -> tuple[int, list[Lease]]:
        """
        Renew the leases of *owner*; if *may_take* is True, take free shards. Return the server's clock and the leases.
        """
        connections = self._open_connections()
        connections.notice_server()
        is_over = self._silence.is_over(has_leases=self._has_leases)
        words = owner, self._lease_ms, int(may_take and is_over), *self._partition
        reply = connections.run("lease", *words, is_write=True)
        if not reply:
            _LOG.error("%s is empty, and is made again: all jobs that were in it are lost", self.url)
            make_schema(connections, self.url, *self._shape)
            connections.notice_server()
            reply = connections.run("lease", *words, is_write=True)
        now, *facts = map(int, reply)
        leases = [
            Lease(shard, epoch, until, rescued, now)
            for shard, epoch, until, rescued in zip(facts[::4], facts[1::4], facts[2::4], facts[3::4], strict=True)
        ]
        self._silence.answered()
        self._has_leases = bool(leases)
        self._epochs = {lease.shard: lease.epoch for lease in leases}
        if may_take:
            if self._owner is None and self._listener is not None:
                begin_to_listen(self._listener, self.abilities, self.url)
            self._owner = owner
        return now, sorted(leases, key=lambda lease: lease.shard)

    def subscription(self) -> RedisSubscription:
        """
        Subscribe to the notifications of other nodes' writes.
        """
        return RedisSubscription(self._open_connections().subscribe(f"{self._base}:news"))

    def raise_generation(self, floor: int) -> None:
        """
        Ensure that all later generations are larger than *floor*.
        """
        self._open_connections().run("floor", self._partition.aligned(floor))

    @contextmanager
    def _storable(self) -> Iterator[None]:
        try:
            yield
        except (struct.error, UnicodeError, OverflowError) as error:
            what = f"{self.url}: a value cannot be stored ({error})"
            raise StoreError(what, "pass text without surrogates and integers in int64") from error

    def _open_connections(self) -> Connections:
        if self._connections is None:
            what = f"{self.url} is not open"
            raise StoreError(what, "open it before use")
        return self._connections


def begin_to_listen(listener: Listener, abilities: Abilities, url: str) -> None:
    if abilities.loss_window:
        _LOG.warning("%s may lose %s", url, abilities.loss_window)
    listener.listen()


def _abilities(window: str) -> Abilities:
    return Abilities(
        window,
        has_notify=True,
        has_many_owners=True,
        has_many_writers=True,
        first_tail=_FIRST_TAIL,
        keeps_answers=True,
    )


def _name_of(skill: Skill) -> tuple[bytes, bytes, bytes]:
    target, handler = skill
    return target.encode(), b"" if handler is None else b"1", (handler or "").encode()
