from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from tickwheel.client._bulk_run import done_in_bulk
from tickwheel.client.change import changed
from tickwheel.client.declare import declared
from tickwheel.errors import ClosedError, ReentrantError
from tickwheel.host.joined_connections import refuse_own_wait
from tickwheel.host.opening import LazyStore
from tickwheel.host.options import SchedulerOptions, owner_name
from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.promise import Promise
from tickwheel.host.referee import Done, LocalAttempts, WithdrawalArbiter
from tickwheel.host.registry import Registry
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.host.withdrawal_requests import WithdrawalRequests
from tickwheel.host.within import TransactionClient
from tickwheel.host.writer import OnCommit, Reservation, Writer
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import BULK, BulkAnswer, BulkFields, BulkProgress, bulk_request
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declaration, Declared
from tickwheel.jobs.errors import UnsupportedError
from tickwheel.jobs.incidents import LETTERS_MAX, Incidents, incidents_of
from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, kept_from
from tickwheel.jobs.model import (
    Actor,
    Answer,
    HistoryRecord,
    Job,
    Outcome,
    Page,
    Pause,
    RetryPolicy,
    Set,
    State,
    Write,
    key_of,
    scope_over,
)
from tickwheel.jobs.once import ONCE, Keep
from tickwheel.jobs.query import has_field, has_not_succeeded
from tickwheel.jobs.requests import PAGE_MAX, STEPS_MAX, ListFields, SetRequest, job_query, set_writes
from tickwheel.jobs.verbs import ACTOR, Verb, note_of, writes_of
from tickwheel.observe.tracing import TRACE, Tracer
from tickwheel.stores import Joins, Node, Partitioned, Shard, Store
from tickwheel.typing import Duration, Instant

__all__ = ["Client"]


class Client:
    """
    One store, its clock and its writer. All methods may be called from any thread.

    Args:
        reserve: Called on the writing thread before a commit, if the store's `claims_sets` is True.
        on_commit: Called after a commit, before callers get their answers.
        on_unknown: Called instead of *on_commit* if the outcome of the commit is unknown.
        on_scope: Called on the caller's thread with a paused scope, or with None after a resume.
        knowing: Returns the running engine, or None if this process fires no jobs.
    """

    def __init__(
        self,
        store: Store,
        clock: StoreClock,
        registry: Registry,
        options: SchedulerOptions,
        runtime: Runtime,
        *,
        on_commit: OnCommit,
        on_unknown: Callable[[], None],
        reserve: Callable[[Sequence[Write], int], Reservation | None],
        on_scope: Callable[[str, str, Pause | None], None],
        knowing: Callable[[], LocalAttempts | None],
        tracer: Tracer | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.now_ms = self.clock.now_ms
        self._registry = registry
        self._options = options
        self._runtime = runtime
        self._on_commit = on_commit
        self._on_unknown = on_unknown
        self._reserve = reserve
        self._on_scope = on_scope
        self._tracer = tracer
        self.opening = LazyStore(store.url, self._open, runtime)
        self._knowing = knowing
        self._requests = WithdrawalRequests(store, self._resubmit, runtime)
        self._name_actor()

    def opened(self) -> Writer | PartitionedWriter:
        return self.opening.writer or self.opening.open()

    def close(self, timeout_s: float | None, release: Callable[[], object]) -> None:
        """
        Commit waiting writes, call *release* to release the leases, and close the store. May be called twice.
        """
        with self.opening.closing() as writer, ExitStack() as steps:  # each callback runs, even if another one fails
            if writer is not None:
                steps.callback(self.store.close)
                steps.callback(release)
                steps.callback(writer.close, timeout_s)
                steps.callback(self._requests.close)

    def _name_actor(self) -> None:
        keep = self._options.history.keep
        self._owner = owner_name(self._options)
        self._actor = Actor(self._owner, keep == "all") if keep in ("usual", "all") else None

    def _open(self) -> Writer | PartitionedWriter:
        self._name_actor()
        self.store.open()
        self.sample()
        partitions = self.store if isinstance(self.store, Partitioned) else None
        return (partial(Writer, self.store) if partitions is None else partial(PartitionedWriter, partitions))(
            self._runtime,
            batch_max=self._options.batch_max,
            waiting_max=self._options.waiting_max,
            on_commit=self._on_commit,
            on_unknown=self._on_unknown,
            reserve=self._reserve,
            referee=WithdrawalArbiter(self._knowing, self._requests),
        )

    @property
    def is_stale(self) -> bool:
        return self.opening.writer is None or self.clock.is_stale

    def refresh(self) -> None:
        self.opened()
        if self.clock.is_stale:
            self.sample()

    def sample(self) -> None:
        if self.store.abilities.has_many_owners:  # such a store may have a clock of its own
            before = self.clock.elapsed()
            self.clock.sample(self.store.now_ms(), before, self.clock.elapsed())

    def _resubmit(self, writes: Sequence[Write], done: Done) -> None:
        writer = self.opening.writer
        if writer is None:
            raise ClosedError("scheduler")
        writer.resubmit(writes, done)

    # ---- writes ----------------------------------------------------------------------------------------------------

    def set(self, request: SetRequest, *, waits: bool = False) -> Promise[Answer]:
        writer = self._writing("set")
        (write,) = self._set_writes((request,), *self.clock.reading_for_delay())
        return writer.submit(write if ONCE.get() is None else _marked((write,))[0], waits=waits)

    def submit(self, verb: Verb, *, waits: bool = False) -> Promise[list[Answer]]:
        writer = self._writing(verb.name)
        actor, owner = self.actor(), self._owner
        reading, is_estimate = self.clock.reading_for_delay(), self.clock.is_sampled
        writes = writes_of(verb, self._set_writes, *reading, is_estimate=is_estimate, actor=actor, owner=owner)
        return writer.submit_many(_marked(writes), waits=waits)

    def pause_scope(self, scope: str, note: str, by: str | None) -> Pause:
        self.opened()
        by, note = note_of(by or self._owner, note)
        self._registry.check_scope(checks.check_scope(scope))
        pause = Pause(self.clock.now_ms(), by, note, scope)
        self._set_scope(scope, pause, by)
        return pause

    def resume_scope(self, scope: str, by: str | None) -> bool:
        self.opened()
        by, _ = note_of(by or self._owner, "")
        return self._set_scope(checks.check_scope(scope), None, by)

    def _set_scope(self, scope: str, pause: Pause | None, by: str) -> bool:
        self._writing("pause_scope" if pause else "resume_scope")
        record, now = None, self.clock.now_ms()
        if self._actor is not None:
            outcome = Outcome.RESUMED if pause is None else Outcome.PAUSED
            target, _, handler = scope.partition(":")
            error = None if pause is None else pause.note
            record = HistoryRecord(0, now, scope, 0, 0, outcome.value, by, target, handler, now, error=error)
        was_paused = self.store.set_scope(scope, pause, record)
        self._on_scope(scope, by, pause)
        return was_paused

    def within(self, connection: object) -> TransactionClient:
        self.refresh()
        store = self.store
        if not (store.abilities.joins_transactions and isinstance(store, Joins)):
            what = f"{store.url} joins no transaction of yours"
            raise UnsupportedError(what, "leave conn out, or keep the jobs in SQLite or PostgreSQL")
        actor, owner = self.actor(), self._owner
        return TransactionClient(store, connection, self._set_writes, self.clock, actor=actor, owner=owner)

    def _writing(self, verb: str) -> Writer | PartitionedWriter:
        """
        Return the writer; raise a `ReentrantError` on the writer's thread, because the thread would wait for itself.
        """
        writer = self.opened()
        if writer.is_inside():
            call = f"{verb} in a hook"
            raise ReentrantError(call)
        if "django.db" in sys.modules:
            refuse_own_wait(self.store.url)
        self.refresh()
        return writer

    def _set_writes(
        self, requests: Iterable[SetRequest], now: int, clock_step: int | None, latest: int | None
    ) -> list[Set]:
        writes = set_writes(
            requests,
            now,
            self._retry_of,
            self._trace(),
            clock_step,
            latest=latest,
            is_estimate=self.clock.is_sampled,
            actor=self.actor(),
        )
        self._registry.check_payloads(writes)
        return writes

    def _retry_of(self, target: str, handler: str | None) -> RetryPolicy:
        self._registry.check(target, handler)
        return self._registry.retry_of(target, handler or "")

    def actor(self) -> Actor | None:
        return None if self._actor is None else ACTOR.get() or self._actor

    def _trace(self) -> str | None:
        trace = TRACE.get()
        return trace if trace is not None or self._tracer is None else self._tracer.current()

    # ---- reads -----------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Job | None:
        self.opened()
        job = self.store.get(checks.check_key(key))
        return None if job is None else self._shown((job,))[0]

    def history(self, key: str, before: int | None, limit: int) -> Sequence[HistoryRecord]:
        self.opened()
        last = None if before is None else checks.check_count("before", before, checks.NUMBER_MAX)
        return self.store.history(checks.check_key(key), last, checks.check_count("limit", limit, PAGE_MAX))

    def page(self, fields: ListFields) -> Page:
        self.opened()
        query = job_query(fields, self.clock.now_ms())
        page, since, field = self.store.page(query), query.not_succeeded_since, query.field
        jobs: Sequence[Job] = page.jobs
        if since is not None:
            jobs = [job for job in jobs if has_not_succeeded(job, since)]
        if field is not None:
            jobs = [job for job in jobs if has_field(job, field)]
        return Page(self._shown(jobs), page.cursor)

    def bulk(self, verb: str, prefix: str, fields: BulkFields, on_progress: BulkProgress | None) -> BulkAnswer:
        self._writing("bulk")
        if not fields.get("by"):
            fields = {**fields, "by": self._owner}
        return done_in_bulk(self, bulk_request(verb, prefix, fields, self.clock.now_ms()), on_progress)

    def change(self, key: str, fields: ChangeFields, if_generation: int | None) -> Answer:
        return changed(self, self._registry, checks.check_key(key), fields, if_generation)

    def declare(self, asked: Declaration) -> Declared:
        self._writing("declare")

        def sets() -> list[Set]:
            return self._set_writes(asked.schedules, *self.clock.reading_for_delay())

        return declared(self, asked, sets)

    def write_together(self, verb: str, writes: Sequence[Write]) -> list[Answer]:
        return self._writing(verb).submit_together(writes).result()

    def begun(self) -> tuple[int, int]:
        return self.store.last_generation(), self.clock.now_ms()

    def write(self, verb: str, make: Callable[[int, Actor | None], Sequence[Write]]) -> Promise[list[Answer]]:
        return self._writing(verb).submit_many(_marked(make(self.clock.now_ms(), self.actor())))

    def keep(self, write: Keep) -> Promise[Answer]:
        return self._writing("keep").submit(write)

    def scopes(self) -> Sequence[Pause]:
        self.opened()
        return self.store.scopes()

    def _shown(self, jobs: Sequence[Job]) -> tuple[Job, ...]:
        paused = {each.scope: each for each in self.store.scopes()} if any(job.lacks_handler for job in jobs) else {}
        knowing = self._knowing()
        shown: list[Job] = []
        for job in jobs:
            if job.lacks_handler and (scope := scope_over(job.target, job.handler, paused)) is not None:
                shown.append(replace(job, lacks_handler=False, pause=paused[scope]))
            elif job.state is State.RUNNING and knowing is not None and knowing.is_waiting(job):
                shown.append(replace(job, awaits_worker=True))
            else:
                shown.append(job)
        return tuple(shown)

    def upcoming(self, due_from: Instant | None, due_until: Instant | None, limit: int) -> Sequence[Job]:
        self.opened()
        now = self.clock.now_ms()
        query = job_query({"due_from": due_from or 0, "due_until": due_until, "limit": limit}, now)
        until = now + 2 * checks.FAR_MS if query.due_until is None else query.due_until
        return self.store.upcoming(query.due_from or 0, until, limit)

    def first_due(self, since: int = 0) -> Job | None:
        self.opened()
        jobs = self.store.upcoming(since, self.clock.now_ms() + 2 * checks.FAR_MS, 1)
        return jobs[0] if jobs else None

    def incidents(self, search: str, prefix: str) -> Incidents:
        self.refresh()
        search, prefix = checks.check_text("search", search, 2_048), checks.check_text("prefix", prefix, 512)
        letters = self.store.latest_dead(LETTERS_MAX + 1)
        return incidents_of(letters, self.clock.now_ms(), search=search, prefix=prefix)

    def latest_dead(self, limit: int, prefix: str) -> Sequence[Job]:
        self.refresh()
        limit, prefix = checks.check_count("limit", limit, PAGE_MAX), checks.check_text("prefix", prefix, 512)
        letters = self.store.latest_dead(LETTERS_MAX if prefix else limit)
        found = [job for job in letters if job.key.startswith(prefix)][:limit]
        whole = {job.key: job for job in self.store.get_many([job.key for job in found])}  # *letters* have no payloads
        now = (whole.get(job.key) for job in found)
        return [job for job in now if job is not None and job.state is State.DEAD]

    def acts(self, since: Instant, until: Instant | None, limit: int) -> list[HistoryRecord]:
        self.refresh()
        now = self.clock.now_ms()
        last = now + QUARTER_MS if until is None else checks.at_ms(until, now, "until")
        found = self.store.acts(checks.at_ms(since, now, "since"), last, checks.check_count("limit", limit, PAGE_MAX))
        return _once(found)

    def minutes(self, since: Instant, until: Instant | None) -> list[Minute]:
        self.refresh()
        now = self.clock.now_ms()
        first = checks.at_ms(since, now, "since")
        last = now + QUARTER_MS if until is None else checks.at_ms(until, now, "until")
        minutes_from, quarters_from = kept_from(now)
        found: list[Minute] = []
        if first < minutes_from:
            found += self.store.minutes(
                max(first // QUARTER_MS * QUARTER_MS, quarters_from), min(last, minutes_from), QUARTER_MS
            )
        found += self.store.minutes(max(first // MINUTE_MS * MINUTE_MS, minutes_from), last, MINUTE_MS)
        return found

    def shards(self) -> Sequence[Shard]:
        self.opened()
        return self.store.shards()

    def nodes(self) -> list[Node]:
        self.refresh()
        return self.store.nodes()

    def forecast(self, since: Instant, step: Duration, steps: int) -> Sequence[int]:
        self.opened()
        checks.check_count("steps", steps, STEPS_MAX)
        since_ms = checks.at_ms(since, self.clock.now_ms(), "since")
        return self.store.count_due(since_ms, checks.span_ms("step", step), steps)


def _marked(writes: Sequence[Any]) -> Sequence[Write]:
    repeat = ONCE.get()
    if repeat is None:
        return writes
    return [replace(write, once=repeat.mark(key_of(write))) for write in writes]


def _once(records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    # keeps the first record of each node's death, and the last record of each bulk change, which has the sums
    deaths = {each.key: each for each in records if each.outcome == "node_died"}
    bulks = {(each.key, each.by): each for each in reversed(records) if each.outcome == BULK}
    kept = {(each.key, each.number) for each in (*deaths.values(), *bulks.values())}
    return [each for each in records if each.outcome not in {"node_died", BULK} or (each.key, each.number) in kept]
