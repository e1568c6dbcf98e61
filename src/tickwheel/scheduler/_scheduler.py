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
    Keyed jobs that survive a crash and fire to the millisecond.

    Before `start`, the scheduler is a client: it can set, move, cancel, get and list jobs that another process fires.
    All methods may be called from any thread and from inside a handler, but not in a signal handler.
    """

    def start(self, *, role: StartRole = "owner") -> Self:
        """
        Become the store's owner, recover jobs that were running at a crash, and fire jobs.

        Does nothing if the scheduler is already started.

        Args:
            role: "owner"; or "auto" if several processes use one SQLite file. The first process is then the owner, and
                the others are clients. When the owner ends, one of them takes over within a second.

        Raises:
            InvalidJobError: If *role* has any other value, or the annotation of a task cannot be resolved.
            StoreInUseError: With "owner", if another process owns the store; this scheduler stays a client.
            StoreError: If the store cannot be opened.
            ClosedError: After `stop`.
        """
        self._core.handlers.prepare()
        self._core.start(None, role)
        return self

    def stop(self, timeout: Duration | None = 10.0) -> list[Firing]:
        """
        Stop firing jobs, let handlers finish, write their results, release the store, and close.

        Waits at most *timeout* seconds for handlers (None: no limit), and returns the firings that are still running.
        The next owner recovers them. Pending jobs stay in the store. Attempts that have not started are not counted.

        * Before `start`, the call only closes this scheduler.
        * A second call returns []. If Ctrl-C ended the first call, the store is already released; the second call
          finishes the rest.
        * Inside a handler, the call returns [] immediately, and the stop continues in the background.
        * During the exit of the interpreter, a stop does nothing. The next owner recovers the running jobs.
        """
        return self._core.stop(checks.limit_s("timeout", timeout), is_inside=self._core.is_inside())

    close = stop

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:  # after an error, __exit__ is not called
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    if not TYPE_CHECKING:  # for type checkers, `async with` must stay an error

        async def __aenter__(self) -> NoReturn:
            message = f"an `async with` enters {type(self).__name__}: write `with`, or use AsyncScheduler"
            raise TypeError(message)

        async def __aexit__(self, *_: object) -> None: ...

    def _do(self, verb: Verb, conn: object = None) -> list[Answer]:
        client = self._core.client
        return client.submit(verb, waits=True).result() if conn is None else client.within(conn).submit(verb).now()

    def _outside(self, _verb: str) -> Jobs:
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
        Set the job of *key*. The default `mode` replaces a pending job of that key.

        The job is durable when the call returns. An existing recurring job continues: its next run, a run that is due
        or in progress, the attempts and the count of runs stay. If rule and payload are unchanged, nothing is written,
        so a program may set its recurring jobs at each start.

        Args:
            key: 1 to 512 bytes of UTF-8.
            call: The call to run, as `cancel_order.of(number=17)`; without a call, `handler=` names the handler.
            conn: Your connection to the same SQLite file (`sqlite3`) or PostgreSQL database (`psycopg`), or a
                SQLAlchemy Session or Connection, or Django's `connection`. The write joins the connection's
                transaction, so it takes effect if and only if you commit.
            if_generation: Set only if the live job has this generation; 0: only if there is no live job. Without this
                argument the answer always has a job.
            **fields: The fields of `SetRequest`: delay or at, payload, handler, every, cron, ...

        Returns:
            CREATED, REPLACED, KEPT or WRONG_GENERATION, and the current job. For an existing recurring job: UNCHANGED,
                CHANGED (after a run in progress), CANCELLED if no run is left, RESTARTED, or DEAD if the job is a dead
                letter, which `replay` or mode="restart" revives.

        Raises:
            InvalidJobError: For an invalid value; the message has the remedy. Nothing was stored.
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
        Set many jobs in as few commits as possible. The answers are in the order of the requests.

        Raises the errors of `set`. If one request is invalid, no job is set.
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
        Make the recurring jobs of a manifest (a named list of jobs) match *schedules*, in one commit.

        An existing job continues, and keeps its due runs, as with `set`. Jobs of an earlier declaration that are not in
        *schedules* are cancelled, but a run that has started ends normally. If nothing has changed, nothing is written,
        so a program may declare its jobs at each start. On a Redis cluster each partition commits separately.

        A job without a manifest joins *manifest*. A series with `max_runs=` that has ended or was cancelled is created
        again only if its rule changes. Any other cancelled job is created again.

        Args:
            schedules: The jobs of the manifest, each key once; at most 10,000.
            manifest: The manifest's name, for example the program's name: 1 to 255 bytes of UTF-8.
            revision: The number of the build or release. If a newer revision was declared, this call does nothing.
            rollback: True to declare an older revision.
            allow_empty: True to allow an empty list, which cancels all jobs of the manifest.
            dry_run: True to return the result without writing anything.

        Returns:
            The outcome for each job, and for the whole manifest: CHANGED, UNCHANGED or SUPERSEDED.

        Raises:
            InvalidJobError: For an invalid value, a key of another manifest, or an empty list that is not allowed.
                Nothing was changed.
            StoreError: If the store does not answer, or if other callers keep declaring the manifest.
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

        The answer is MOVED, TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION, with the current job.
        """
        return self._do(MoveJobs((key,), When(delay, at), if_generation), conn)[0]

    def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Run the pending job of *key* now. A recurring job still has its scheduled run. The answers are those of `move`.
        """
        return self._do(MoveJobs((key,), _NOW, if_generation, runs_now=True))[0]

    def cancel(
        self, key: str, *, running: bool = False, if_generation: int | None = None, conn: object = None
    ) -> Answer:
        """
        Remove the pending or dead job of *key*. A recurring job can be removed even while it runs.

        If *running* is True, a running job is asked to stop: an async handler is cancelled, a process is killed, a
        thread sees `Firing.cancelled`, or a pull worker loses its lease. The job is then not retried, and has no next
        run. *running* and *conn* cannot be combined.

        Returns:
            CANCELLED (it will never fire), STOPPING (it is running, and was asked to stop), TOO_LATE (it is running),
            NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(CancelJobs((key,), if_generation, running), conn)[0]

    def pause(self, key: str, *, note: str = "", by: str | None = None, if_generation: int | None = None) -> Answer:
        """
        Pause the pending job of *key*. Until the job is resumed, it does not become due and uses no attempt.

        The job stays pending and keeps its due time. It stays paused if it is set, moved or replaced. A recurring job
        can be paused even while it runs: the run continues, and the next run waits. A second pause replaces the first
        pause's note and author. *note* is the reason, shown to other users, in at most 1,000 bytes. *by* is the author;
        None for this process (`SchedulerOptions.owner`).

        The answer is PAUSED (it will not start), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(PauseJobs((key,), note, by, if_generation))[0]

    def resume(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        End the pause of the job of *key*. The job is due at its unchanged due time.

        If the due time has passed, the job is due immediately. A recurring job treats missed runs by its `misfire`
        policy. A job whose time to live (`expires`) is over is dropped. The answer is RESUMED, KEPT (it was not
        paused), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(ResumeJobs((key,), if_generation))[0]

    def pause_scope(self, scope: str, *, note: str = "", by: str | None = None) -> Pause:
        """
        Pause all jobs of a scope: "handler:mail", "pull:images" (a queue), "webhook" (a target) or "*" (all jobs).

        The jobs stay pending and use no attempt. The pause includes jobs that are set later. Running jobs continue.
        When the call returns, no job of the scope can start on this scheduler; on other nodes, jobs may start for 5 s
        more. *note* and *by* are those of `pause`.
        """
        return self._outside("pause_scope").pause_scope(scope, note, by)

    def resume_scope(self, scope: str, *, by: str | None = None) -> bool:
        """
        Resume the jobs of *scope*, on all nodes within 5 s; return True if *scope* was paused.

        Overdue jobs are treated as in `resume`.
        """
        return self._outside("resume_scope").resume_scope(scope, by)

    def paused_scopes(self) -> Sequence[Pause]:
        """
        Return the paused scopes, each with its time, author and note. `stats` counts the waiting jobs of each scope.
        """
        return self._core.client.scopes()

    def skip(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Skip the next run of the recurring job of *key*, by moving the job to the run after next.

        A skipped run does not count for `max_runs`. A paused job stays paused. A one-time job raises an
        InvalidJobError. The answer is MOVED, CANCELLED (no run is left), TOO_LATE (it is running), NOT_FOUND or
        WRONG_GENERATION.
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

        Each run is a one-time job with the key `KEY@2030-01-01T09:00:00.000Z`, and the recurring job's current payload,
        target and retry policy. The recurring job continues unchanged. An instant whose job still waits or runs gets no
        second job, so a backfill may be repeated. O(runs).

        Args:
            key: The recurring job's key.
            since: The start of the range, inclusive.
            until: The end of the range, exclusive; at most the due time of the next run.
            rate: Number of runs that become due per second; None to make all of them due now.
            limit: Maximum number of runs, 1 to 10,000. The answer has the first instant after these runs.
            dry_run: True to count the runs only.

        Raises:
            InvalidJobError: If no recurring job has this key, or a value is invalid; the message has the remedy.
        """
        return backfilled(self._outside("backfill"), key, BackfillRange(since, until, rate, limit, dry_run))

    def change(self, key: str, *, if_generation: int | None = None, **fields: Unpack[ChangeFields]) -> Answer:
        """
        Change some fields of the pending job of *key*, such as its payload or its cron line.

        The *fields* are payload, target, handler, retry and expires, and for a recurring job the fields of its rule;
        see `SetRequest`. All other fields, attempts, a pause and the count of runs stay unchanged. The due time changes
        only with `every`, `cron`, `tz` or `exclude`; a run that is due or retried always keeps its due time. A running
        recurring job changes when its run has ended.

        Returns:
            CHANGED or UNCHANGED for a recurring job, REPLACED or TOO_LATE (it is running) for a one-time job, NOT_FOUND
            or WRONG_GENERATION, and the current job.

        Raises:
            InvalidJobError: For an invalid value, a rule for a one-time job, or a call without fields.
            StoreError: If the store does not answer, or if other callers keep changing the job.
        """
        return self._outside("change").change(key, fields, if_generation)

    def replay(self, key: str, *, delay: Duration = 0, if_generation: int | None = None) -> Answer:
        """
        Make the dead job of *key* pending again, due now or after *delay*. The count of attempts restarts at 0.

        The answer is REPLAYED, NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(ReplayJobs((key,), if_generation, delay))[0]

    def move_many(
        self, keys: Iterable[str], *, delay: Duration | None = None, at: Instant | None = None, conn: object = None
    ) -> list[Answer]:
        """
        Move all pending jobs of *keys* to one instant. Return one answer of `move` for each key, in order.
        """
        return self._do(MoveJobs(keys, When(delay, at)), conn)

    def cancel_many(self, keys: Iterable[str], *, running: bool = False, conn: object = None) -> list[Answer]:
        """
        Remove the jobs of *keys*; see `cancel` for *running*. Return one answer of `cancel` for each key, in order.
        """
        return self._do(CancelJobs(keys, running=running), conn)

    def replay_many(self, keys: Iterable[str], *, rate: float | None = None) -> list[Answer]:
        """
        Make the dead jobs of *keys* pending again. Return one answer of `replay` for each key, in order.

        Without *rate*, all jobs are due now. With *rate*, this number of jobs becomes due per second.
        """
        return self._do(ReplayJobs(keys, rate=rate))

    def pause_many(self, keys: Iterable[str], *, note: str = "", by: str | None = None) -> list[Answer]:
        """
        Pause the jobs of *keys*. Return one answer of `pause` for each key, in order.
        """
        return self._do(PauseJobs(keys, note, by))

    def resume_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        End the pauses of the jobs of *keys*. Return one answer of `resume` for each key, in order.
        """
        return self._do(ResumeJobs(keys))

    def bulk(
        self, verb: str, prefix: str = "", *, on_progress: BulkProgress | None = None, **fields: Unpack[BulkFields]
    ) -> BulkAnswer:
        """
        Change all jobs that match a filter, a thousand per commit. Count them first with `dry_run=True`.

        *verb* is "cancel", "move" (with `shift=`), "spread" (with `over=`), "run", "replay" (dead jobs), "pause" or
        "resume". By default, pending jobs are changed; `state=` selects others. "cancel" and "pause" also change
        running recurring jobs, as `cancel` and `pause` do. "cancel" with `running=True` asks all running jobs to stop.
        A job that another caller changes at the same time is skipped, and counted as refused. If the bulk change is
        interrupted or ends at `limit=`, continue it with `cursor=`. No job is then moved, run or replayed twice.

        Args:
            verb: The operation.
            prefix: Prefix of the keys. A prefix or a filter field is required.
            on_progress: Called in this thread after each commit, with the answer so far.
            **fields: state, due_from, due_until, handler, target, contains, error, recurring, paused as in `list`; and
                shift, over, since, note, by, running, dry_run, limit, cursor, changes as in `BulkFields`.

        Raises:
            InvalidJobError: For a field that the verb does not accept, or without a prefix and filter.
        """
        check_names("bulk", fields, BulkFields.__annotations__)
        return self._outside("bulk").bulk(verb, prefix, fields, on_progress)

    def drain(self, prefix: str = "", on_progress: Callable[[int], object] | None = None) -> list[Job]:
        """
        Cancel all pending jobs whose keys begin with *prefix*, and return them in the order of their keys.

        Running jobs remain, and jobs that are set during the call may remain. Time and memory grow with the result.
        About once per thousand jobs, *on_progress* is called in this thread with the number of newly cancelled jobs.
        """
        return drained(self._outside("drain"), prefix, on_progress)

    def get(self, key: str) -> Job | None:
        """
        Return the live job of *key*, or the dead job if no live one exists, or None.
        """
        return self._core.client.get(key)

    def explain(self, key: str) -> Explanation | None:
        """
        Return the reason why the job of *key* has not run yet, with the figures of its lane and a remedy.

        None if the job does not exist. The process that fires the job answers from its memory. Any other process
        answers from the store, and from the firing process's last report. A store that does not answer is also a
        reason. O(jobs in memory that wait), and a few reads of the store.
        """
        return self._core.explain(key)

    def history(self, key: str, *, before: int | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return the history records of the jobs of *key*, newest first, even if the key no longer has a job.

        A record is written in the commit that ends an attempt. `SchedulerOptions.history` determines which records are
        kept, and for how long. For the next page, pass the number of the last record as *before*. *limit* is 1 to 1000.
        """
        return self._core.client.history(key, before, limit)

    def jobs_of(self, task: Task[..., ..., Any]) -> list[Job]:
        """
        Return the pending, running and dead jobs of *task*, under all names of the task. O(number of these jobs).
        """
        return jobs_with(self._core.client, names_of(task))

    def list(self, prefix: str = "", **fields: Unpack[ListRest]) -> Page:
        """
        Return a page of jobs in the order of their keys. Continue with `cursor=page.cursor` until the cursor is None.

        The keys begin with *prefix*. `Filter` and `ListRest` describe the *fields*. A page reads at most 10,000 keys
        (2,000 on Redis), in about ten milliseconds. A page may therefore have fewer jobs than its limit, or none, and
        still not be the last. If few jobs match, the list takes many pages.
        """
        check_names("list", fields, ListRest.__annotations__)
        return self._core.client.page({"prefix": prefix, **fields})
