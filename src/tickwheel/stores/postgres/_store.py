from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.minutes import Minute
from tickwheel.jobs.model import (
    Answer,
    Cancel,
    HistoryRecord,
    Job,
    JobQuery,
    Manifest,
    Move,
    Page,
    Pause,
    Set,
    State,
    Write,
)
from tickwheel.jobs.rows import PLACE, in_int64, job_of
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
from tickwheel.stores.postgres import _history, _ownership, _scopes, _withdrawals
from tickwheel.stores.postgres._alone import Alone, change_alone, firings_alone, sets_alone
from tickwheel.stores.postgres._arrays import Texts
from tickwheel.stores.postgres._batch import ASIDE, Batch, ServerMovedError, is_wrong_guess
from tickwheel.stores.postgres._begun import BegunLists, Entry
from tickwheel.stores.postgres._connections import Connection, Connections
from tickwheel.stores.postgres._examine import findings_of
from tickwheel.stores.postgres._floors import Floors
from tickwheel.stores.postgres._joining import Database, joined
from tickwheel.stores.postgres._listener import Notifier, PostgresSubscription
from tickwheel.stores.postgres._look import look, scan
from tickwheel.stores.postgres._paging import page
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.postgres._schema import migrate
from tickwheel.stores.postgres._server import loss_window, notice_server, warn_of
from tickwheel.stores.postgres._steps import run, run_async
from tickwheel.threads import Lock

__all__ = ["PostgresStore"]


_MARGIN: Final = 0.2
"""Last fraction of a lease, in which its owner does not rely on it."""

_OPENING_S: Final = 10.0
"""Time limit of schema changes, in seconds."""

_SOON_MS: Final = 60_000
"""Notifications of jobs that are due in more than this time, in ms, may be sent a second later."""

_UNNAMED: Final = (-1,)
"""Placeholder for the generations of jobs whose rows were locked during a takeover."""

_TRIES: Final = 10
"""Maximum number of tries to write a batch while other writers create jobs of its keys."""


class PostgresStore:
    """
    Jobs in one database. Any number of processes on any number of machines fire them, and each leases some shards.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        url: str,
        shards: int | None = None,
        lease_s: float = 10.0,
        is_pooled: bool = False,
        listen: str | None = "",
    ) -> None:
        """
        Store the location of the database.

        *url* is the location with the password masked. *shards* is the minimum number of shards; None keeps the
        existing number, or creates 16. A process needs a shard to fire jobs. A lease ends *lease_s* seconds after its
        last renewal. *is_pooled* is True behind a pooler in transaction mode. *listen* is the connection string for
        notifications; an empty one means *conninfo*. If it is None, the owner polls twice a second instead.
        """
        self.url = url
        self.abilities = Abilities(
            has_notify=listen is not None,
            has_many_owners=True,
            has_many_writers=True,
            joins_transactions=True,
            first_tail=_ownership.FIRST_TAIL,
            keeps_answers=True,
        )
        self._is_pooled, self._listen = is_pooled, listen
        self._conninfo, self._wanted_shards, self._lease_s = conninfo, shards, lease_s
        self._connections: Connections | None = None
        self._listener: Listener | None = None
        self._notifier: Notifier | None = None
        self._database: Database | None = None
        self._shards, self._shard_of = 1, sharding(1)
        self._owned: frozenset[int] = frozenset()
        self._owned_until = 0.0
        self._held: frozenset[tuple[int, int]] = frozenset()
        self._floors, self._making = Floors(), Lock()
        self._owner: str | None = None
        self._warned_of = ""
        self._silence = Silence(lease_s)
        self._locked: list[_ownership.CutOff] = []
        self._begun = BegunLists()
        self._has_more_notes = False
        self._finds_plain = True  # False after a move or cancel of a job that was not plain
        self._sets_new = True  # False after a read found jobs of the keys, True after it found none

    def __repr__(self) -> str:
        return f"<PostgresStore {self.url}>"

    def _connect(self) -> Connections:
        return Connections(self._conninfo, self.url, call_s=call_s(self._lease_s), is_pooled=self._is_pooled)

    def examine(self) -> list[Finding]:
        connections = self._connect()
        try:
            with connections.reading() as connection:
                return list(findings_of(connection, is_pooled=self._is_pooled))
        finally:
            connections.close()

    def open(self) -> None:
        if self._connections is not None:
            return
        connections = self._connect()
        try:
            with connections.writing(_OPENING_S, is_pipelined=False) as connection:
                self._shards = migrate(connection, self.url, self._wanted_shards)
                self._shard_of = sharding(self._shards)
                notice_server(connection, self.url, self._shards)
                durability = connection.execute(SQL["durability"]).fetchall()[0]
                self.abilities = replace(self.abilities, loss_window=loss_window(connection, durability))
        except BaseException:
            connections.close()
            raise
        self._listener = Listener(
            lambda: PostgresSubscription(
                connections.connect(self._listen), lambda: self._owned | {ASIDE}, self._owner or ""
            )
        )
        self._connections = connections

    def close(self) -> None:
        connections = self._connections
        if connections is None or connections.lifetime.is_inherited:
            return
        if self._owner is not None:
            with suppress(StoreError):
                self.release(self._owner)
        if self._notifier is not None:
            self._notifier.close()
        if self._listener is not None:
            self._listener.close()
        connections.close()

    def now_ms(self) -> int:
        # Called before each firing. A cursor would take twice as long as everything else in this call.
        (number,) = self._open_connections().alone(SQL["now"], {}, is_read=True) or (0,)
        return int(number)

    def apply(self, writes: Sequence[Write]) -> list[Answer]:
        seconds = call_s(self._lease_s) * calls_of(len(writes))
        alone = self._alone_of(writes)
        answers = None if alone is None else self._apply_alone(alone, seconds)
        if answers is not None:
            return answers
        for turn in range(0 if alone is None else 1, _TRIES):
            with self._begun.writing() as entry:
                batch = Batch(
                    self._shard_of,
                    self._owner,
                    self._surely_owned(),
                    held={epoch: shard for shard, epoch in self._held},
                    sets_new=self._sets_new,
                    entry=entry,
                )
                try:
                    answers = self._open_connections().run(batch.apply(writes, is_guessing=turn == 0), seconds)
                except (WrongGuessError, StoreError) as error:
                    if not is_wrong_guess(error.__cause__ if isinstance(error, StoreError) else error):
                        raise
                    entry.begun = entry.ended = ()
                    continue
                except ServerMovedError:
                    self._notice_server()
                    entry.begun = entry.ended = ()
                    continue
                finally:
                    self._floors.lower(batch.pending)
            if batch.has_found is not None:
                self._sets_new = not batch.has_found
            if len(writes) == 1 and isinstance(writes[0], (Move, Cancel)):
                self._finds_plain = _is_plain(answers[0].job)
            self._notify(batch.noted)
            return answers
        what = f"{self.url}: others keep making jobs of the same keys"
        raise StoreError(what, "try again", is_transient=True)

    def _alone_of(self, writes: Sequence[Write]) -> Alone | None:
        try:
            if isinstance(first := writes[0], Set):
                return sets_alone(writes, self._shards, self._surely_owned()) if self._sets_new else None
            if isinstance(first, (Move, Cancel)):
                is_one = len(writes) == 1 and self._finds_plain
                return change_alone(first, self._shards, self._surely_owned()) if is_one else None
            return firings_alone(writes, {epoch: shard for shard, epoch in self._held}, self._owner)
        except (IndexError, UnicodeError, OverflowError):
            return None

    def _apply_alone(self, alone: Alone, seconds: float) -> list[Answer] | None:
        try:
            if alone.begun or alone.ended:
                with self._begun.writing() as entry:
                    row = self._fire_alone(alone, entry, seconds)
            else:
                row = self._open_connections().alone(
                    SQL[alone.name], alone.values, seconds, returns_job=alone.returns_job
                )
        except BaseException as error:
            if isinstance(error, StoreError) and is_wrong_guess(error.__cause__):
                return None
            self._floors.forget()  # jobs unknown to this process may have become pending
            raise
        if row is None:
            return None
        answers = alone.answered(row)
        if alone.now_of is not None:
            first = min(answer.job.due_at for answer in answers if answer.job is not None)
            self._floors.lower((first,))
            self._notify(alone.noted, is_soon=first < alone.now_of(row) + _SOON_MS)
        return answers

    def _fire_alone(self, alone: Alone, entry: Entry, seconds: float) -> tuple[Any, ...] | None:
        alone.values["slot"] = entry.slot
        entry.begun = alone.begun
        try:
            row = self._open_connections().alone(SQL[alone.name], alone.values, seconds)
        except StoreError as error:
            if is_wrong_guess(error.__cause__):
                entry.begun = ()
            raise
        entry.ended = alone.ended
        return row

    def join(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        connections, database = self._open_connections(), self._find_database()
        cursor = connections.join(connection, is_async=False)
        with connections.translated(cursor.connection), self._same_server():
            answers, noted, number = run(cursor, joined(writes, self.shard_of, database, self.url), is_cursor=True)
        self._notify(noted, number)
        return answers

    async def join_async(self, connection: object, writes: Sequence[Write]) -> list[Answer]:
        connections, database = self._open_connections(), self._find_database()
        cursor = connections.join(connection, is_async=True)
        with connections.translated(cursor.connection), self._same_server():
            answers, noted, number = await run_async(cursor, joined(writes, self.shard_of, database, self.url))
        self._notify(noted, number)
        return answers

    def get(self, key: str) -> Job | None:
        with self._open_connections().reading() as connection:
            return next(map(job_of, connection.execute(SQL["job_of_key"], (key,)).fetchall()), None)

    def get_many(self, keys: Sequence[str]) -> list[Job]:
        with self._long_read() as connection:
            return list(map(job_of, connection.execute(SQL["jobs_read"], (Texts.of(keys),)).fetchall()))

    def page(self, query: JobQuery) -> Page:
        with self._long_read() as connection:
            return page(connection, query)

    def count(self) -> dict[str, int]:
        with self._open_connections().reading() as connection:
            row = connection.execute(SQL["count"]).fetchone() or (0, 0, 0)
        return dict(zip((state.value for state in State), row, strict=True))

    def last_generation(self) -> int:
        return self._read_number("last_generation")

    def shard_of(self, key: str) -> int:
        return self._shard_of(key)

    def due(self, shard: int, until: int, after: tuple[int, int] | None, limit: int) -> list[Job]:
        return self._read_jobs("jobs_due", (shard, in_int64(until), *(after or (-(2**63), -1)), limit))

    def version(self) -> object:
        with self._open_connections().reading() as connection:
            return connection.execute(SQL["version"]).fetchone()

    def overdue(self, shards: Sequence[int], until: int, limit: int) -> dict[int, list[Job]]:
        floors, turn = self._floors.of(shards)
        values = {**floors, "until": in_int64(until), "limit": limit}
        with self._open_connections().reading() as connection:
            rows = connection.execute(SQL["jobs_overdue"], values).fetchall()
        found: dict[int, list[Job]] = {}
        for row in rows:
            found.setdefault(row[-1], []).append(job_of(row))
        firsts = [(shard, min((job.due_at for job in found.get(shard, ())), default=None)) for shard in shards]
        self._floors.learn(turn, firsts, until)
        return found

    def look(self, cursors: Sequence[Cursor], until: int, limit: int, *, with_changes: bool) -> list[ShardScan]:
        connections = self._open_connections()
        with self._floors.doubted():
            sights, has_more = look(connections, self._owner, cursors, until, limit, with_changes=with_changes)
        self._floors.lower(job.due_at for sight in sights for job in sight.changed)
        if has_more:
            self._announce_notes()
        return sights

    def scan(
        self, cursors: Sequence[Cursor], until: int, limit: int, lanes: LaneSet, *, inside: bool, rows: int
    ) -> list[Scan]:
        with self._open_connections().reading() as connection:
            return scan(connection, cursors, until, limit, lanes, inside=inside, rows=rows)

    def upcoming(self, since: int, until: int, limit: int) -> list[Job]:
        if limit == 1:
            return self._first(since, until)
        values = {"since": in_int64(since), "until": in_int64(until), "limit": limit}
        with self._long_read() as connection:
            return [job_of(row) for row in connection.execute(SQL["jobs_upcoming"], values).fetchall()]

    def _first(self, since: int, until: int) -> list[Job]:
        floors, turn = self._floors.of()
        values = {**floors, "since": in_int64(since), "until": in_int64(until)}
        with self._open_connections().reading() as connection:
            rows = connection.execute(SQL["jobs_first"], values).fetchall()
        if since <= 0 and rows:
            self._floors.learn(turn, [(row[-2], row[2]) for row in rows], min(until, rows[0][-1]))
        jobs = [job_of(row) for row in rows if row[0] is not None]
        return sorted(jobs, key=PLACE)[:1]

    def count_due(self, since: int, step_ms: int, steps: int) -> list[int]:
        counts = [0] * steps
        values = {"since": since, "step": step_ms, "until": since + step_ms * steps}
        with self._long_read() as connection:
            for step, count in connection.execute(SQL["count_due"], values).fetchall():
                counts[step] = count
        return counts

    def history(self, key: str, before: int | None, limit: int) -> list[HistoryRecord]:
        with self._open_connections().reading() as connection:
            return _history.history(connection, key, before, limit)

    def latest_dead(self, limit: int) -> list[Job]:
        with self._long_read() as connection:
            return [job_of(row) for row in connection.execute(SQL["latest_dead"], {"limit": limit}).fetchall()]

    def prune(self, since: int, per_key: int, total: int, limit: int) -> int:
        with self._long_read(is_pipelined=False) as connection:
            return _history.prune(connection, since, per_key, total, limit)

    def add_records(self, records: Sequence[HistoryRecord]) -> None:
        with self._open_connections().writing() as connection:
            connection.execute(SQL["insert_records"], _history.columns_of(records))

    def acts(self, since: int, until: int, limit: int) -> list[HistoryRecord]:
        with self._open_connections().reading() as connection:
            return _history.acts(connection, since, until, limit)

    def keep_minutes(self, minutes: Sequence[Minute]) -> None:
        with self._open_connections().reading() as connection:
            _history.keep_minutes(connection, minutes)

    def minutes(self, since: int, until: int, span_ms: int) -> list[Minute]:
        with self._open_connections().reading() as connection:
            return _history.minutes(connection, since, until, span_ms)

    def forget_minutes(self, minutes_from: int, quarters_from: int) -> None:
        with self._open_connections().reading() as connection:
            _history.forget_minutes(connection, minutes_from, quarters_from)

    def acquire(self, owner: str) -> list[Lease]:
        before, may_take = time.monotonic(), self._silence.is_over(has_leases=bool(self._owned))
        leases = self._keep(owner, is_taking=may_take)
        is_new = self._owner is None
        self._hold(owner, leases, before)
        if is_new and self._listener is not None and self.abilities.has_notify:
            self._listener.listen()
        return leases

    def renew(self, owner: str) -> list[Lease]:
        before = time.monotonic()
        self._silence.is_over(has_leases=bool(self._owned))
        leases = self._keep(owner, is_taking=False)
        self._hold(owner, leases, before)
        self._rescue_again()
        if asked := self._begun.doubtful():
            self._begun.learn(asked, _ownership.still_running(self._open_connections(), owner))
        return leases

    def _keep(self, owner: str, *, is_taking: bool) -> list[Lease]:
        connections, lease_ms = self._open_connections(), int(self._lease_s * 1000)
        see = partial(_ownership.view, connections, owner, lease_ms, self._shards)
        seen = see(is_guarded=self._is_guarded(), is_taking=is_taking)
        if not seen.is_same_server:
            self._notice_server()
            seen = see(is_guarded=self._is_guarded(), is_taking=is_taking)
        with connections.reading() as connection:
            window = loss_window(connection, seen.durability)
        self._warned_of = warn_of(window, self._warned_of, self.url)
        self.abilities = replace(self.abilities, loss_window=self._warned_of)
        with self._begun.writing() as entry:
            entry.begun = _UNNAMED if is_taking else ()
            leases, locked = _ownership.keep(connections, owner, lease_ms, seen, entry.slot, is_taking=is_taking)
            entry.begun = [each.generation for each in locked]
        self._locked += locked
        return leases

    def _is_guarded(self) -> bool:
        return self._listener is not None and self._listener.is_subscribed

    def _rescue_again(self) -> None:
        if locked := [each for each in self._locked if each.shard in self._owned]:
            tried, (rescued, locked) = locked, _ownership.rescue_again(self._open_connections(), locked)
            self._begun.ended({each.generation for each in tried} - {each.generation for each in locked})
            if rescued:
                self._announce_notes()
        self._locked = locked

    def _announce_notes(self) -> None:
        self._has_more_notes = True
        self.wake()

    def release(self, owner: str) -> None:
        _ownership.release(self._open_connections(), owner)
        self._owner, self._owned = None, frozenset()
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
        connections = self._open_connections()
        with self._floors.doubted():
            jobs = _scopes.take_up(connections, (shard, epoch, self._owner), skills, limit, (unreadable, unfit))
        self._floors.lower(job.due_at for job in jobs)
        return jobs

    def aside(self) -> list[Aside]:
        with self._open_connections().reading() as connection:
            return [Aside(*row) for row in connection.execute(SQL["aside"]).fetchall()]

    def count_paused(self) -> int:
        with self._long_read() as connection:
            return int((connection.execute(SQL["count_paused"]).fetchone() or (0,))[0])

    def set_scope(self, scope: str, pause: Pause | None, record: HistoryRecord | None) -> bool:
        with self._open_connections().writing() as connection:
            return _scopes.set_scope(connection, scope, pause, record)

    def scopes(self) -> list[Pause]:
        with self._open_connections().reading() as connection:
            return _scopes.scopes(connection)

    def manifests(self, name: str | None = None) -> list[Manifest]:
        with self._open_connections().reading() as connection:
            return [Manifest(*row) for row in connection.execute(SQL["manifests"], {"name": name}).fetchall()]

    def shards(self) -> list[Shard]:
        with self._open_connections().reading() as connection:
            return [Shard(*row) for row in connection.execute(SQL["owners"]).fetchall()]

    def report(self, owner: str, figures: Mapping[str, Any]) -> None:
        with self._open_connections().reading() as connection:
            connection.execute(SQL["report_figures"], (json.dumps(figures), owner))

    def nodes(self) -> list[Node]:
        with self._open_connections().reading() as connection:
            rows = connection.execute(SQL["nodes"], (KEPT_MS,)).fetchall()
        return [Node(owner, until, at, figures and json.loads(figures)) for owner, until, at, figures in rows]

    def wait_for_change(self, timeout_s: float) -> bool:
        has_heard = self._listener is not None and self._listener.wait(0.0 if self._has_more_notes else timeout_s)
        has_more, self._has_more_notes = self._has_more_notes, False
        return has_heard or has_more

    def wake(self) -> None:
        if self._listener is not None:
            self._listener.wake()

    def _long_read(self, *, is_pipelined: bool = True) -> AbstractContextManager[Connection]:
        return self._open_connections().writing(call_s(self._lease_s) * LONG_CALLS, is_pipelined=is_pipelined)

    def _read_jobs(self, name: str, values: Any) -> list[Job]:
        with self._open_connections().reading() as connection:
            return [job_of(row) for row in connection.execute(SQL[name], values).fetchall()]

    def _read_number(self, name: str) -> int:
        with self._open_connections().reading() as connection:
            return int((connection.execute(SQL[name]).fetchone() or (0,))[0])

    @contextmanager
    def _same_server(self) -> Iterator[None]:
        # After a change of the server, generations must first be raised above those of the old server, in a separate
        # transaction.
        try:
            yield
        except ServerMovedError:
            self._notice_server()
            what = f"{self.url}: another server has taken over"
            raise StoreError(what, "begin the transaction again", is_transient=True) from None

    def _notice_server(self) -> None:
        with self._open_connections().writing(is_pipelined=False) as connection:
            notice_server(connection, self.url, self._shards)

    def request_withdrawal(self, jobs: Sequence[Job]) -> set[int]:
        with self._open_connections().writing() as connection:
            unowned, asked = _withdrawals.request(connection, jobs, self._shard_of)
        self._notify(asked)
        return unowned

    def withdrawal_requests(self, shards: Sequence[int]) -> list[Job]:
        with self._open_connections().reading() as connection:
            return _withdrawals.requests(connection, shards)

    def report_started(self, jobs: Sequence[Job]) -> None:
        with self._open_connections().writing() as connection:
            _withdrawals.report_started(connection, jobs)

    def attempts(self, jobs: Sequence[Job]) -> dict[int, bool]:
        with self._open_connections().reading() as connection:
            return _withdrawals.attempts(connection, jobs)

    def _hold(self, owner: str, leases: list[Lease], before: float) -> None:
        self._silence.answered()
        self._owner = owner
        self._owned_until = before + self._lease_s * (1 - _MARGIN)
        held = frozenset((lease.shard, lease.epoch) for lease in leases)
        if held != self._held:
            self._floors.forget()
        self._held, self._owned = held, frozenset(shard for shard, _ in held)

    def _surely_owned(self) -> frozenset[int]:
        # the owners of all other shards must be notified of writes
        return self._owned if time.monotonic() < self._owned_until else frozenset()

    def _notify(self, shards: Collection[int], number: str = "", *, is_soon: bool = True) -> None:
        if shards:
            self._open_notifier().notify(shards, number, is_soon=is_soon)

    def _open_notifier(self) -> Notifier:
        with self._making:
            if self._notifier is None:
                self._notifier = Notifier(self._open_connections().connect)
            return self._notifier

    def _find_database(self) -> Database:
        if self._database is None:
            with self._open_connections().reading() as connection:
                row = connection.execute(SQL["place"]).fetchone()
            assert row is not None
            self._database = row[:-1]
        return self._database

    def _open_connections(self) -> Connections:
        if self._connections is None:
            what = f"{self.url} is not open"
            raise StoreError(what, "open it before use")
        return self._connections


def _is_plain(job: Job | None) -> bool:
    return job is None or (job.recurrence is None and job.pause is None and not job.attempt)
