from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.jobs.errors import StoreError, StoreFormatError, StoreFullError
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import Answer, HistoryRecord, Job, JobQuery, Manifest, Page, Pause, Set, State, Write
from tickwheel.jobs.rows import in_int64, job_of
from tickwheel.jobs.rules import is_plain_set
from tickwheel.stores._lane_set import LaneSet
from tickwheel.stores._plan import WrongGuessError
from tickwheel.stores._reports import ahead_of, owners_of
from tickwheel.stores.contract import Abilities, Aside, Cursor, Lease, Node, Scan, Shard, ShardScan, Skill
from tickwheel.stores.sqlite import _far, _history, _scopes, _withdrawals
from tickwheel.stores.sqlite._batch import Batch
from tickwheel.stores.sqlite._checkpointer import COMMIT_LIMIT_PAGES, Checkpointer
from tickwheel.stores.sqlite._connections import Connections, real_path
from tickwheel.stores.sqlite._errors import ERRORS, store_error, translated
from tickwheel.stores.sqlite._file_listener import FileListener, notify
from tickwheel.stores.sqlite._filters import Filters
from tickwheel.stores.sqlite._joining import Follower, joining
from tickwheel.stores.sqlite._owner_lock import OwnerLock
from tickwheel.stores.sqlite._ownership import changed, take_over
from tickwheel.stores.sqlite._paging import page
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.stores.sqlite._reserve import Reserve, growth_of, is_growing, moved_size
from tickwheel.stores.sqlite._runs import KEY_BYTES, Merger
from tickwheel.stores.sqlite._schema import migrate
from tickwheel.threads import Lock

__all__ = ["SqliteStore"]

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1

_RENEW_S: Final = 0.4
"""Seconds between checks of the owner's file and lock, so that a loss is detected within a second."""


class SqliteStore:
    """
    Jobs in one file. One process fires them; any number of processes may write them.

    The owner holds a lock on `FILE-lock`. Other processes notify the owner of their writes through `FILE-wake`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str = "full",
        busy_s: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        """
        Store the location of the file, which `open` creates if it is missing.

        The directory must exist, on a local disk. *synchronous* is "full" or "normal". "normal" does not wait for the
        disk: a power failure loses the acknowledged writes since the last checkpoint, but a crash of the process loses
        nothing. *busy_s* is the maximum wait while another process writes, in seconds. *clock* replaces the system's
        wall clock.
        """
        if synchronous not in ("full", "normal"):
            message = f"synchronous is {synchronous!r}: pass 'full' or 'normal'"
            raise ValueError(message)
        # SQLite names the log by the real path. The lock must do the same: otherwise a file with two names could have
        # two owners.
        self.url = f"sqlite:///{os.fspath(path)}"
        self.path = real_path(path, self.url)
        self._synchronous, self._busy_s = synchronous, busy_s
        self._clock = clock or MonotonicClock()
        self._connections: Connections | None = None
        self._lock = OwnerLock(self.path)
        self._listener: FileListener | None = None
        self._lease: Lease | None = None
        self._owner = ""
        self._checkpointer: Checkpointer | None = None
        self._making = Lock()
        self._follower: Follower | None = None
        self._seen = 0
        """Last generation whose note the owner has read. The next write deletes notes up to it."""
        self._reserve = Reserve(self.path, self.url)
        self._filters, self._merger, self._sorter = Filters(), Merger(), _far.Sorter()
        window = "" if synchronous == "full" else "answered writes since the last checkpoint, on a power cut"
        self.abilities = Abilities(
            loss_window=window,
            has_notify=True,
            joins_transactions=True,
            renew_s=_RENEW_S,
            keeps_answers=True,
            claims_sets=True,
        )

    def __repr__(self) -> str:
        return f"<SqliteStore {self.url}>"

    def open(self) -> None:
        if self._connections is not None:
            return
        with translated(self.url):
            connections = Connections(self.path, self.url, synchronous=self._synchronous, busy_s=self._busy_s)
            try:
                with connections.write_lock:
                    migrate(connections.writer, self.url, is_owned=self._lock.is_taken)
                    connections.poll_often()
            except BaseException:
                connections.close()
                raise
            self._listener = FileListener(self.path)
            self._connections = connections

    def close(self) -> None:
        connections = self._connections
        if connections is None or connections.lifetime.is_inherited:
            return
        with suppress(StoreError):
            self.release(self._owner)
            self._step_down()  # finishes an interrupted stop
        if self._follower is not None:
            self._follower.close()
        connections.close()
        if self._listener is not None:
            self._listener.close()

    def now_ms(self) -> int:
        return self._clock.wall_ns() // 1_000_000

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        if self._reserve.is_spent:
            self._reserve.check(writes)
            writes = self._reserve.fitting(writes)
        for is_last in (False, True):
            try:
                return self._apply_all(writes)
            except StoreFullError:
                if is_growing(writes):
                    raise
            if is_last:
                self._reserve.spend()
            self._open_connections().restart_log()
        try:
            return self._apply_all(self._reserve.fitting(writes))
        finally:
            if self._lease is None:  # the reserve belongs to the owner: check the disk again next time
                self._reserve.is_spent = False

    def join(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        connections = self._open_connections()
        with translated(self.url), joining(connection, connections.joinable()) as joined:
            batch = Batch(joined, self.now_ms(), self._filters, owner=None)
            answers = batch.apply(writes, is_guessing=False)
        if batch.has_notes:
            self._open_follower(connections).follow(batch.generation)
        return answers

    async def join_async(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        return self.join(connection, writes)

    def get(self, key: str) -> Job | None:
        with translated(self.url), self._open_connections().reading() as connection:
            row = connection.execute(SQL["job_of_key"], (key,)).fetchone()
        return job_of(row) if row else None

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        with translated(self.url), self._open_connections().reading() as connection:
            return [job_of(row) for key in keys for row in connection.execute(SQL["job_of_key"], (key,))]

    def page(self, query: JobQuery) -> Page:
        with translated(self.url), self._open_connections().reading() as connection:
            return page(connection, query)

    def count(self) -> dict[str, int]:
        return dict(zip((state.value for state in State), self._ledger()[1:4], strict=True))

    def last_generation(self) -> int:
        return int(self._ledger()[0])

    def shard_of(self, key: str) -> int:
        return 0

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        if shard:
            return []
        with translated(self.url), self._open_connections().reading() as connection:
            return _far.due(connection, min(until, _INT64_MAX), after or (_INT64_MIN, -1), limit)

    def version(self) -> object:
        with translated(self.url), self._open_connections().reading() as connection:
            (number,) = connection.execute("PRAGMA data_version").fetchone()
            return connection, number  # numbers of two connections cannot be compared

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        return {0: jobs} if (jobs := self.due(0, until, None, limit)) else {}

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        sights = []
        for cursor in cursors:
            jobs, mark = list[Job](), cursor.mark or 0
            if with_changes and self._lease is not None and self._lease.epoch == cursor.epoch:
                with translated(self.url), self._open_connections().reading() as connection:
                    jobs, mark = changed(connection, cursor)
                self._seen = max(self._seen, cursor.mark or 0)
            sights.append(ShardScan.of(jobs, mark, ahead_of(cursor, self.due, until, limit), until, limit))
        return sights

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        until = in_int64(until)
        with translated(self.url), self._open_connections().reading() as connection:
            return [
                Scan([], None)
                if each.shard
                else _far.scan(connection, until, each.after, limit, lanes, inside=inside, rows=rows)
                for each in cursors
            ]

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        return self.due(0, until, (since, -1), limit)

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        counts = [0] * steps
        with translated(self.url), self._open_connections().reading() as connection:
            values = {"since": since, "step_ms": step_ms, "until": since + step_ms * steps}
            for step, count in connection.execute(SQL["count_due"], values):
                counts[step] = count
        return counts

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _history.history(connection, key, before, limit)

    def latest_dead(self, limit: int) -> list[Job]:
        with translated(self.url), self._open_connections().reading() as connection:
            return [job_of(row) for row in connection.execute(SQL["latest_dead"], (limit,))]

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        with translated(self.url):
            return _history.prune(self._open_connections(), since, per_key, total, limit)

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        with translated(self.url), self._open_connections().writing() as connection:
            _history.add_records(connection, records)

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _history.acts(connection, since, until, limit)

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        with translated(self.url), self._open_connections().writing() as connection:
            _history.keep_minutes(connection, minutes)

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _history.minutes(connection, since, until, span_ms)

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        with translated(self.url), self._open_connections().writing() as connection:
            _history.forget_minutes(connection, minutes_from, quarters_from)

    def acquire(self, owner: str) -> list[Lease]:
        if self._lease is not None and owner == self._owner:
            return self.renew(owner)
        connections = self._open_connections()
        connections.check_writable()
        connections.file.check()
        try:
            self._lock.take(owner)
            with translated(self.url), connections.writing() as connection:
                epoch, rescued = take_over(connection, owner, self.now_ms())
            self.abilities = replace(self.abilities, has_notify=self._listener is not None and self._listener.listen())
            connections.limit_log(COMMIT_LIMIT_PAGES)
            self._checkpointer = Checkpointer(connections.connect)
            self._owner = owner
            self._keep_reserve()
            self._lease = Lease(0, epoch, None, rescued, self.now_ms())
        except BaseException:
            if self._lease is None:  # otherwise another owner has the file
                self._step_down()
            raise
        return [self._lease]

    def renew(self, owner: str) -> list[Lease]:
        if self._lease is None or owner != self._owner:
            return []
        try:
            self._open_connections().file.check()
            is_ours = self._lock.is_held and self._ledger()[5] == self._lease.epoch
        except StoreError as error:
            if not error.is_transient:
                self._step_down()
            raise
        if not is_ours:
            self._step_down()
            return []
        self._keep_reserve()
        with suppress(StoreError), translated(self.url):  # the next commit reports the error; the next turn tries again
            self._sorter.catch_up(self._open_connections(), self.now_ms(), self._reserve)
            self._merger.catch_up(self._open_connections(), self.now_ms(), self._reserve)
            self._filters.catch_up(self._open_connections())
        if self._listener is not None and self._listener.listen_again():
            self._listener.wake()
        self._lease = replace(self._lease, rescued=0, granted_at=self.now_ms())
        return [self._lease]

    def release(self, owner: str) -> None:
        if self._lease is None or owner != self._owner:
            return
        try:
            with translated(self.url), self._open_connections().writing() as connection:
                connection.execute(SQL["hand_over"])
        finally:
            self._step_down()

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
        connections = self._open_connections()
        with translated(self.url), connections.reading() as connection:
            if not connection.execute(SQL["has_aside"]).fetchone()[0]:
                return []
        with translated(self.url), connections.writing() as connection:
            return Batch(connection, self.now_ms(), self._filters, owner=self._owner).take_up(
                epoch, skills, limit, unreadable, unfit
            )

    def aside(self) -> list[Aside]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _scopes.aside(connection)

    def count_paused(self) -> int:
        with translated(self.url), self._open_connections().reading() as connection:
            return int(connection.execute(SQL["count_paused"]).fetchone()[0])

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        with translated(self.url), self._open_connections().writing() as connection:
            return _scopes.set_scope(connection, scope, pause, record)

    def scopes(self) -> list[Pause]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _scopes.scopes(connection)

    def manifests(self, name: str | None = None) -> list[Manifest]:
        with translated(self.url), self._open_connections().reading() as connection:
            return [Manifest(*row) for row in connection.execute(SQL["manifests"], (name,))]

    def shards(self) -> list[Shard]:
        with translated(self.url), self._open_connections().reading() as connection:
            *_, epoch, owner = connection.execute(SQL["read_ledger"]).fetchone()
        return [Shard(0, owner, epoch)]

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        pass  # the file's only owner already has its figures

    def nodes(self) -> list[Node]:
        return owners_of(self.shards()) if self._lock.is_taken() else []

    def wait_for_change(self, timeout_s: float) -> bool:
        return self._listener is not None and self._listener.wait(timeout_s)

    def wake(self) -> None:
        if self._listener is not None:
            self._listener.wake()

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        if self._lease is None and not self._lock.is_taken():
            return {job.generation for job in jobs}
        with translated(self.url), self._open_connections().writing() as connection:
            _withdrawals.request(connection, jobs, self.now_ms())
        notify(self.path)
        return set()

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _withdrawals.requests(connection, self.now_ms())

    def report_started(self, jobs: Sequence[Job]) -> None:
        with translated(self.url), self._open_connections().writing() as connection:
            _withdrawals.report_started(connection, jobs)

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        with translated(self.url), self._open_connections().reading() as connection:
            return _withdrawals.attempts(connection, jobs)

    def _keep_reserve(self) -> None:
        with translated(self.url), self._open_connections().reading() as connection:
            moved = moved_size(connection)
        self._reserve.keep(moved)

    def _apply_all(self, writes: Sequence[Write]) -> list[Answer]:
        try:  # like `translated`, which would cost three calls
            return self._apply(writes, is_guessing=True)
        except WrongGuessError:
            with suppress(WrongGuessError), translated(self.url):
                return self._apply(writes, is_guessing=False)
        except ERRORS as error:
            raise store_error(error, self.url) from error
        what = f"{self.url}: jobs and keys contradict each other"
        raise StoreFormatError(what, "restore a backup; something else has written to the tables")

    def _apply(self, writes: Sequence[Write], *, is_guessing: bool) -> list[Answer]:
        connections, is_owner = self._connections or self._open_connections(), self._lease is not None
        owner, may_grow = self._owner if is_owner else None, not self._reserve.is_spent
        alone = first.job.key if len(writes) == 1 and type(first := writes[0]) is Set and is_plain_set(first) else None
        with connections.write_lock:  # like `Connections.writing`, whose generator costs a tenth of a small commit
            connection = connections.checked_writer()
            try:
                connections.begin()
                now = self.now_ms()
                batch = Batch(connection, now, self._filters, owner=owner, may_grow=may_grow, alone=alone)
                answers = batch.apply(writes, is_guessing=is_guessing)
                if is_owner:
                    if may_grow:
                        connections.extend_log()
                    moved = self._merger.pay(connection, batch.shelved, now) if may_grow and batch.shelved else 0
                    if (growth := growth_of(writes) + KEY_BYTES * moved) > 0:
                        self._reserve.cover(growth, connection)
                if self._seen and self._lease is not None:
                    connection.execute(SQL["delete_notes"], (self._seen,))
                    self._seen = 0
                connections.commit()
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        if batch.has_notes:
            notify(self.path)
        checkpointer = self._checkpointer
        if checkpointer is not None:
            checkpointer.wrote(batch.weight)
        return answers

    def _open_follower(self, connections: Connections) -> Follower:
        with self._making:
            if self._follower is None:
                self._follower = Follower(connections.connect, partial(notify, self.path))
            return self._follower

    def _step_down(self) -> None:
        self._lease = None
        if self._lock.is_held:
            self._reserve.let_go()
        if self._listener is not None:
            self._listener.stop()
        self._lock.give_back()
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None
        with translated(self.url):
            self._open_connections().limit_log()

    def _ledger(self) -> tuple[int, ...]:
        with translated(self.url), self._open_connections().reading() as connection:
            ledger: tuple[int, ...] = connection.execute(SQL["read_ledger"]).fetchone()
        return ledger

    def _open_connections(self) -> Connections:
        if self._connections is None:
            what = f"{self.url} is not open"
            raise StoreError(what, "open it before use")
        return self._connections
