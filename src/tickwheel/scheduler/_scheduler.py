"""
The durable scheduler for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack, overload

from tickwheel.client.pages import drained, jobs_with
from tickwheel.host.backend import Jobs
from tickwheel.jobs import checks
from tickwheel.jobs.bulk import BulkAnswer, BulkFields, BulkProgress
from tickwheel.jobs.change import ChangeFields
from tickwheel.jobs.declaration import Declared, Schedule, checked_declaration
from tickwheel.jobs.explanation import Explanation
from tickwheel.jobs.model import Answer, HistoryRecord, Job, Page, Pause, SetAnswer
from tickwheel.jobs.requests import (
    ListRest,
    SetFields,
    SetRequest,
    When,
    answered,
    check_names,
    check_requests,
    set_request,
)
from tickwheel.jobs.task_call import TaskCall
from tickwheel.jobs.verbs import CancelJobs, MoveJobs, PauseJobs, ReplayJobs, ResumeJobs, SetJobs, Verb
from tickwheel.scheduler._fleet import Fleet
from tickwheel.scheduler._skip import skipped
from tickwheel.scheduler.backfill import Backfill, BackfillRange, backfilled
from tickwheel.scheduler.tasks import Task, names_of
from tickwheel.targets import Firing
from tickwheel.typing import Duration, Instant, StartRole

__all__ = ["Scheduler"]

_NOW = When(delay=0)


class Scheduler(Fleet):
    """
    Jobs by key that survive a crash, fired to the millisecond.

    Without `start` it is a client: it may set, move, cancel, get and list in a store that another process fires.
    All methods may be called from any thread, also from inside a handler, but not in a signal handler.
    """

    def start(self, *, role: StartRole = "owner") -> Self:
        """
        Become the store's owner, recover jobs that a crash left running, and fire.

        Does nothing if it is started already.

        Args:
            role: "owner", or "auto" for one of several processes on one SQLite file: the first process is the owner,
                the others are clients, and one of them takes over within a second when the owner ends.

        Raises:
            InvalidJobError: For another *role*, or a task with an annotation that cannot be resolved.
            StoreInUseError: As "owner", if another process owns the store; this one stays a client.
            StoreError: If the store cannot be opened.
            ClosedError: After `stop`.
        """
        self._core.handlers.prepare()
        self._core.start(None, role)
        return self

    def stop(self, timeout: Duration | None = 10.0) -> list[Firing]:
        """
        Stop firing, let handlers finish, write their ends, release the store, and close.

        Pending jobs stay in the store. An attempt that was begun and not yet handed over does not count.
        Before `start` it closes the client; a second call returns [], or finishes the first call if Ctrl-C ended that,
        which releases the store even so. Inside a handler it returns [] at once and the stop continues in the
        background.
        Once the interpreter ends, it does nothing, and the next owner recovers the running jobs.

        Args:
            timeout: Maximum seconds; None to wait for all handlers.

        Returns:
            The firings that still run; the next owner recovers them.
        """
        return self._core.stop(checks.limit_s("timeout", timeout), is_inside=self._core.is_inside())

    close = stop

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:  # there is no __exit__ then
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    if not TYPE_CHECKING:  # checkers refuse `async with` where a class has neither

        async def __aenter__(self) -> NoReturn:
            message = f"an `async with` enters {type(self).__name__}: write `with`, or use AsyncScheduler"
            raise TypeError(message)

        async def __aexit__(self, *_: object) -> None: ...

    def _do(self, verb: Verb, conn: object = None) -> list[Answer]:
        client = self._core.client
        return client.submit(verb, waits=True).result() if conn is None else client.within(conn).submit(verb).now()

    def _outside(self, _verb: str) -> Jobs:
        """
        Return the executor of a verb that cannot join a transaction; Django's scheduler refuses it inside one.
        """
        return self._core.client

    @overload
    def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: None = None,
        **fields: Unpack[SetFields],
    ) -> SetAnswer: ...

    @overload
    def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: int | None,
        **fields: Unpack[SetFields],
    ) -> Answer: ...

    def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: int | None = None,
        **fields: Unpack[SetFields],
    ) -> Answer:
        """
        Set the job of *key*; a pending job of that key is replaced, unless `mode` says otherwise.

        The job is durable when this returns. A recurring job that exists continues: it keeps its next run, a run that
        is under way or owed, its attempts and its count. With the same rule and payload nothing is written, so a
        program may set its recurring jobs at each start.

        Args:
            key: 1 to 512 bytes of UTF-8.
            call: The call to run, as `cancel_order.of(number=17)`; without it `handler=` names the handler.
            conn: A connection of yours to the same SQLite file (`sqlite3`) or PostgreSQL database (`psycopg`), or a
                SQLAlchemy Session or Connection or Django's `connection` to it. The write joins its transaction: it
                takes effect if and only if you commit.
            if_generation: Set only if the live job has this generation, or, with 0, if there is no live job. Without
                this argument the answer always has a job.
            **fields: The fields of `SetRequest`: delay or at, payload, handler, every, cron, ...

        Returns:
            CREATED, REPLACED, KEPT or WRONG_GENERATION, and the job as it is now. For a recurring job that exists:
            UNCHANGED, CHANGED (after its end, for a run under way), CANCELLED if no run is left, RESTARTED, or DEAD
            if it has ended as a dead letter, which `replay` or mode="restart" revives.

        Raises:
            InvalidJobError: For an invalid value; its message names value and remedy. Nothing was stored.
            InvalidDelayError: For NaN.
            TypeError: For a time that is not a number, or an unknown argument.
            StoreError: If the store does not answer.
            TransactionError: If *conn* has no transaction that can be joined.
            ClosedError: After `stop`.
        """
        request = set_request(key, call, fields, if_generation)
        if conn is None:
            return answered(self._core.client.set(request, waits=True).result(), request)
        return answered(self._do(SetJobs((request,)), conn)[0], request)

    def set_many(self, requests: Iterable[SetRequest], *, conn: object = None) -> list[Answer]:
        """
        Set many jobs in as few commits as possible; the answers are in order.

        Errors are those of `set`; one bad request refuses all, before any is set.
        """
        return self._do(SetJobs(check_requests(requests)), conn)

    def declare(
        self,
        schedules: Iterable[Schedule],
        manifest: str,
        *,
        revision: int | None = None,
        rollback: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
    ) -> Declared:
        """
        Make the recurring jobs of a manifest (a named list of them) match *schedules*, in one commit.

        Each job is set as by `set`: a job that exists continues, and keeps the runs that it owes. Jobs that an earlier
        declaration had and this one lacks are cancelled; a run under way ends undisturbed. So a program may declare its
        jobs at each start: if nothing changed, nothing is written. On a Redis cluster each partition has its own
        commit.

        A key that belongs to no manifest is taken into this one. A series with `max_runs=` that has ended, or was
        cancelled, stays so until its rule changes; any other job that was cancelled is created again.

        Args:
            schedules: The jobs of the manifest, each key once; at most 10,000.
            manifest: Its name, such as that of the program: 1 to 255 bytes of UTF-8.
            revision: The number of the build or release. If a newer one was declared, this call does nothing.
            rollback: True to declare an older revision nevertheless.
            allow_empty: True to allow an empty list, which cancels all jobs of the manifest.
            dry_run: True to return the result without writing anything.

        Returns:
            The outcome for each job, and as a whole: CHANGED, UNCHANGED or SUPERSEDED.

        Raises:
            InvalidJobError: For an invalid value, a key of another manifest, or an empty list that is not allowed. Then
                nothing was changed.
            StoreError: If the store does not answer; transient, if others keep declaring the manifest.
        """
        asked = checked_declaration(
            schedules, manifest, revision=revision, rollback=rollback, allow_empty=allow_empty, dry_run=dry_run
        )
        return self._outside("declare").declare(asked)

    def move(
        self,
        key: str,
        *,
        delay: Duration | None = None,
        at: Instant | None = None,
        if_generation: int | None = None,
        conn: object = None,
    ) -> Answer:
        """
        Move the pending job of *key* to another instant.

        Returns:
            MOVED, TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION, and the job as it is now.
        """
        return self._do(MoveJobs((key,), When(delay, at), if_generation), conn)[0]

    def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Move the pending job of *key* to now; a recurring job keeps the instant of its next run.

        Returns:
            As `move`.
        """
        return self._do(MoveJobs((key,), _NOW, if_generation, runs_now=True))[0]

    def cancel(
        self, key: str, *, running: bool = False, if_generation: int | None = None, conn: object = None
    ) -> Answer:
        """
        Remove the pending or dead job of *key*; a recurring job also while it runs.

        With *running*, and without *conn*, a running job is asked to stop: an async handler is cancelled, a process
        killed, a thread sees `Firing.cancelled`, a pull worker loses it. It is not retried and has no next run.

        Returns:
            CANCELLED (it will not fire any more), STOPPING (it ran, and was asked to stop), TOO_LATE (it is running),
            NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(CancelJobs((key,), if_generation, running), conn)[0]

    def pause(self, key: str, *, note: str = "", by: str | None = None, if_generation: int | None = None) -> Answer:
        """
        Pause the pending job of *key*: it is not due until it is resumed; it uses no attempt.

        It stays pending, keeps its instant, and shows its pause; it stays paused if it is set, moved or replaced.
        A recurring job can also be paused while it runs: this run continues, and the next one waits. A second pause
        replaces the note and author of the first.

        Args:
            key: The job's key.
            note: Reason of the pause, shown to others; at most 1,000 bytes.
            by: Author of the pause; None for this process, by its `SchedulerOptions.owner`.
            if_generation: Pause only if the job has this generation.

        Returns:
            PAUSED (it will not start any more), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(PauseJobs((key,), note, by, if_generation))[0]

    def resume(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        End the pause of the job of *key*, which is due at its instant again.

        If its instant has passed, it is due at once. A recurring job handles the runs that it missed by its `misfire`
        policy; a job past its `expires` is dropped.

        Returns:
            RESUMED, KEPT (it was not paused), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(ResumeJobs((key,), if_generation))[0]

    def pause_scope(self, scope: str, *, note: str = "", by: str | None = None) -> Pause:
        """
        Keep all jobs of "handler:mail", "pull:images" (a queue), "webhook" (a target) or "*" (all) from starting.

        They stay pending and use no attempt, including jobs that are set later. Running jobs continue. Once this
        returns, no job of the scope starts on this scheduler, and after 5 s none on other nodes. *note* and *by* are as
        for `pause`.
        """
        return self._outside("pause_scope").pause_scope(scope, note, by)

    def resume_scope(self, scope: str, *, by: str | None = None) -> bool:
        """
        Let the jobs of *scope* start again, as after `resume`, on all nodes within 5 s; return True if it was paused.
        """
        return self._outside("resume_scope").resume_scope(scope, by)

    def paused_scopes(self) -> Sequence[Pause]:
        """
        Return the paused scopes, each with its time, author and note; `stats` counts the jobs that wait for each.
        """
        return self._core.client.scopes()

    def skip(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Skip the next run of the recurring job of *key*: it is moved to the run after that one.

        A skipped run does not count for `max_runs`. A paused job stays paused.

        Returns:
            MOVED, CANCELLED (there is no other run), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.

        Raises:
            InvalidJobError: If the job is not recurring.
        """
        return skipped(self._outside("skip"), key, if_generation)

    def backfill(
        self,
        key: str,
        since: Instant,
        until: Instant,
        *,
        rate: float | None = None,
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> Backfill:
        """
        Run the recurring job of *key* once more for each of its instants in a range of the past.

        Each run is a one-time job, `KEY@2030-01-01T09:00:00.000Z`, with the present payload, target and retries of the
        recurring job, which continues unchanged. An instant whose job still waits or runs gets no second one, so a
        backfill may be repeated. O(runs).

        Args:
            key: The recurring job's key.
            since: The start of the range, inclusive.
            until: The end of the range, exclusive; at most the due time of the next run.
            rate: Number of runs per second, one after the other; None for all of them now.
            limit: Maximum number of runs, 1 to 10,000; the answer has the start of the rest.
            dry_run: True to count them only.

        Raises:
            InvalidJobError: If no recurring job has this key, or another value is invalid; it names the remedy.
            TypeError: For an instant of another type.
        """
        return backfilled(self._outside("backfill"), key, BackfillRange(since, until, rate, limit, dry_run))

    def change(self, key: str, *, if_generation: int | None = None, **fields: Unpack[ChangeFields]) -> Answer:
        """
        Change some fields of the pending job of *key*, such as its payload or its cron line; the others stay unchanged.

        Attempts, a pause and the count of runs stay. The due time stays the same unless `every`, `cron`, `tz` or
        `exclude` changes; a run that is owed or retried keeps it in any case. A running recurring job changes once its
        run has ended.

        Args:
            key: The job's key.
            if_generation: Change only if the job has this generation.
            **fields: payload, target, handler, retry, expires; of a recurring job also its rule: see `ChangeFields`.

        Returns:
            CHANGED or UNCHANGED for a recurring job, REPLACED or TOO_LATE (it is running) for a one-time job, NOT_FOUND
            or WRONG_GENERATION, and the job as it is now.

        Raises:
            InvalidJobError: For an invalid value, a rule for a one-time job, or no field.
            StoreError: If the store does not answer; transient, if others keep changing the job.
        """
        return self._outside("change").change(key, fields, if_generation)

    def replay(self, key: str, *, delay: Duration = 0, if_generation: int | None = None) -> Answer:
        """
        Make the dead job of *key* pending again, due now or after *delay*, with all its attempts.

        Returns:
            REPLAYED, NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(ReplayJobs((key,), if_generation, delay))[0]

    def move_many(
        self, keys: Iterable[str], *, delay: Duration | None = None, at: Instant | None = None, conn: object = None
    ) -> list[Answer]:
        """
        Move all pending jobs of *keys* to one instant; the answers are in order, each as from `move`.
        """
        return self._do(MoveJobs(keys, When(delay, at)), conn)

    def cancel_many(self, keys: Iterable[str], *, running: bool = False, conn: object = None) -> list[Answer]:
        """
        Remove the jobs of *keys*; the answers are in order, each as from `cancel`, which explains *running*.
        """
        return self._do(CancelJobs(keys, running=running), conn)

    def replay_many(self, keys: Iterable[str], *, rate: float | None = None) -> list[Answer]:
        """
        Make the dead jobs of *keys* pending again; the answers are in order, each as from `replay`.

        They are due now, or, with *rate*, one after the other, that many per second.
        """
        return self._do(ReplayJobs(keys, rate=rate))

    def pause_many(self, keys: Iterable[str], *, note: str = "", by: str | None = None) -> list[Answer]:
        """
        Pause the jobs of *keys*; the answers are in order, each as from `pause`.
        """
        return self._do(PauseJobs(keys, note, by))

    def resume_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        End the pauses of the jobs of *keys*; the answers are in order, each as from `resume`.
        """
        return self._do(ResumeJobs(keys))

    def bulk(
        self, verb: str, prefix: str = "", *, on_progress: BulkProgress | None = None, **fields: Unpack[BulkFields]
    ) -> BulkAnswer:
        """
        Change all jobs that match a filter, a thousand per commit; count them first with `dry_run=True`.

        *verb* is "cancel", "move" (with `shift=`), "spread" (with `over=`), "run", "replay" (dead jobs), "pause" or
        "resume". Pending jobs are changed unless `state=` says otherwise; "cancel" and "pause" also change running
        recurring jobs, as the single verbs do, and "cancel" with `running=True` asks all running jobs to stop. A job
        that others change at the same time is left alone, and counted as refused. An interrupted run is continued with
        `cursor=`, and so is a run that ended at `limit=`; no cursor of a run moves, runs or replays a job twice.

        Args:
            verb: The operation.
            prefix: Prefix of the keys; a prefix or another filter is needed.
            on_progress: Called in this thread after each commit, with the answer so far.
            **fields: state, due_from, due_until, handler, target, contains, error, recurring, paused as in `list`; and
                shift, over, since, note, by, running, dry_run, limit, cursor, changes: see `BulkFields`.

        Raises:
            InvalidJobError: For a field that does not go with the verb, or without a filter.
        """
        check_names("bulk", fields, BulkFields.__annotations__)
        return self._outside("bulk").bulk(verb, prefix, fields, on_progress)

    def drain(self, prefix: str = "", on_progress: Callable[[int], object] | None = None) -> list[Job]:
        """
        Cancel every pending job whose key begins with *prefix*, and return them in the order of their keys.

        Jobs that are set during the call may remain, and running jobs do. Costs time and memory in proportion to the
        result.

        Args:
            prefix: Prefix of the keys; all jobs by default.
            on_progress: Called in this thread after each thousand or so, with the number of jobs cancelled since the
                last call.
        """
        return drained(self._outside("drain"), prefix, on_progress)

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or else its dead one, or None.
        """
        return self._core.client.get(key)

    def explain(self, key: str) -> Explanation | None:
        """
        Return why the job of *key* has not run yet: a reason, the figures of its lane, and a remedy.

        None if there is no such job. The process that fires the job answers from its memory; another one answers from
        the store, and from the last report of that process. O(jobs in memory that wait), and a few reads of the store.
        May be called from any thread.

        Args:
            key: The job's key.

        Raises:
            InvalidJobError: If *key* is invalid.
            StoreError: If the store refuses; a store that does not answer is an explanation.
        """
        return self._core.explain(key)

    def history(self, key: str, *, before: int | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return the history records of the jobs of *key*, the newest first, even if the key has no job any more.

        A record is written in the commit that ends an attempt; `SchedulerOptions.history` says which are kept, and how
        long.

        Args:
            key: The job's key.
            before: Return only records with numbers below this; pass the number of the last record for the next page.
            limit: Maximum number, 1 to 1000.
        """
        return self._core.client.history(key, before, limit)

    def jobs_of(self, task: Task[..., ..., Any]) -> list[Job]:
        """
        Return the jobs of *task*, under all its names: pending, running, and dead. O(their number).
        """
        return jobs_with(self._core.client, names_of(task))

    def list(self, prefix: str = "", **fields: Unpack[ListRest]) -> Page:
        """
        Return a page of jobs in the order of their keys; continue with `cursor=page.cursor` until that is None.

        A page reads at most 10,000 keys, 2,000 on Redis, and so takes some ten milliseconds: a page may have fewer jobs
        than requested, even none, and still not be the last. O(pages) if few jobs match.

        Args:
            prefix: Prefix of the keys.
            **fields: The filters, and cursor and limit: see `ListFields`.
        """
        check_names("list", fields, ListRest.__annotations__)
        return self._core.client.page({"prefix": prefix, **fields})
