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
        Become the store's owner, take up what a crash left, and fire.

        Started already, it does nothing.

        Args:
            role: "owner", or "auto" for one of several processes on one SQLite file: whichever comes first is the
                owner, the others are clients, and one of them takes over within a second when the owner ends.

        Raises:
            InvalidJobError: For another *role*, or a task with an annotation that cannot be resolved.
            StoreInUseError: As "owner", if another process owns the store; this one stays a client.
            StoreError: If the store cannot be had.
            ClosedError: After `stop`.
        """
        self._core.handlers.prepare()
        self._core.start(None, role)
        return self

    def stop(self, timeout: Duration | None = 10.0) -> list[Firing]:
        """
        Stop firing, let handlers finish, write their ends, give the store back, and close.

        What was pending stays in the store. What was begun and not yet handed over does not count as an attempt.
        Before `start` it closes the client; a second call returns [], or does what is left if Ctrl-C ended the first,
        which gives the store back nevertheless. From inside a handler it returns [] at once and the stop goes on
        without it. Once the interpreter ends, it does nothing, and the next owner takes up what is left.

        Args:
            timeout: Maximum seconds; None to wait for all handlers.

        Returns:
            What still runs; the next owner takes it up again.
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
        return client.submit(verb).result() if conn is None else client.within(conn).submit(verb).now()

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
        Set the job of *key*; a pending one of that key is replaced, unless `mode` says otherwise.

        The job is durable when this returns. A recurring job that exists goes on: it keeps its next run, a run that is
        under way or owed, its attempts and its count. With the same rule and payload nothing is written, so a program
        may set its recurring jobs at each start.

        Args:
            key: 1 to 512 bytes of UTF-8.
            call: The call to run, as `cancel_order.of(number=17)`; without it `handler=` names the handler.
            conn: A connection of yours to the same SQLite file (`sqlite3`) or PostgreSQL database (`psycopg`), or a
                SQLAlchemy Session or Connection or Django's `connection` to it. The write joins its transaction: it
                takes effect if and only if you commit.
            if_generation: Only if the live job has this generation; 0: only if there is none. Without it the answer
                has a job.
            **fields: Those of `SetRequest`: delay or at, payload, handler, every, cron, ...

        Returns:
            CREATED, REPLACED, KEPT or WRONG_GENERATION, and the job as it now is. Of a recurring job that exists:
            UNCHANGED, CHANGED (after its end, for a run under way), CANCELLED where no run is left, RESTARTED, or DEAD
            where it has ended as a dead letter, which `replay` or mode="restart" revives.

        Raises:
            InvalidJobError: A value that no job can have; its message names value and remedy. Nothing was stored.
            InvalidDelayError: For NaN.
            TypeError: For a time that is not a number, or an unknown argument.
            StoreError: If the store does not answer.
            TransactionError: If *conn* has no transaction that can be joined.
            ClosedError: After `stop`.
        """
        request = set_request(key, call, fields, if_generation)
        answer = self._core.client.set(request).result() if conn is None else self._do(SetJobs((request,)), conn)[0]
        return answered(answer, request)

    def set_many(self, requests: Iterable[SetRequest], *, conn: object = None) -> list[Answer]:
        """
        Set many jobs in as few commits as there can be; the answers are in order.

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
        Make the recurring jobs of a manifest (a named list of them) what *schedules* say, in one commit.

        Each job is set as by `set`: one that exists goes on, and keeps what it owes. Jobs that an earlier declaration
        had and this one has not are cancelled; a run under way ends undisturbed. So a program may declare its jobs at
        each start: with nothing changed, nothing is written. On a Redis cluster each partition has a commit of its own.

        A key that belongs to no manifest is taken into this one. A series with `max_runs=` that has ended, or was
        cancelled, stays so until its rule changes; any other that was cancelled is created again.

        Args:
            schedules: The jobs of the manifest, each key once; at most 10,000.
            manifest: Its name, such as that of the program: 1 to 255 bytes of UTF-8.
            revision: The number of the build or release. Where a newer one was declared, this one does nothing.
            rollback: True if an older revision is wanted nevertheless.
            allow_empty: True if an empty list is meant: it cancels all jobs of the manifest.
            dry_run: True to return the result without writing anything.

        Returns:
            The outcome for each job, and as a whole: CHANGED, UNCHANGED or SUPERSEDED.

        Raises:
            InvalidJobError: For a value that no job can have, a key of another manifest, or an empty list that is not
                allowed. Nothing was done then.
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
        Give the pending job of *key* another instant.

        Returns:
            MOVED, TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION, and the job as it now is.
        """
        return self._do(MoveJobs((key,), When(delay, at), if_generation), conn)[0]

    def run_now(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Move the pending job of *key* to now; one that recurs keeps the instant of its next run.

        Returns:
            As `move`.
        """
        return self._do(MoveJobs((key,), _NOW, if_generation, runs_now=True))[0]

    def cancel(
        self, key: str, *, running: bool = False, if_generation: int | None = None, conn: object = None
    ) -> Answer:
        """
        Remove the pending or dead job of *key*; one that recurs also while it runs.

        With *running*, and without *conn*, one that runs is asked to stop: an async handler is cancelled, a process
        killed, a thread sees `Firing.cancelled`, a pull worker loses it. It is not tried again and has no next run.

        Returns:
            CANCELLED (it will not fire any more), STOPPING (it ran, and was asked to stop), TOO_LATE (it is running),
            NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(CancelJobs((key,), if_generation, running), conn)[0]

    def pause(self, key: str, *, note: str = "", by: str | None = None, if_generation: int | None = None) -> Answer:
        """
        Keep the pending job of *key* from being due until it is resumed; it uses no attempt.

        It stays pending, keeps its instant, and shows its pause: set, moved or replaced meanwhile, it stays paused.
        One that recurs is paused also while it runs: this run goes on, and what follows it waits. A second pause
        replaces the words of the first.

        Args:
            key: The job's.
            note: Reason of the pause, shown to others; at most 1,000 bytes.
            by: Author of the pause; None for this process, by its `SchedulerOptions.owner`.
            if_generation: Only if the job has this generation.

        Returns:
            PAUSED (it will not start any more), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(PauseJobs((key,), note, by, if_generation))[0]

    def resume(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        End the pause of the job of *key*, which is due at its instant again.

        If that has passed, it is due at once. A recurring job then does about the runs that it missed what its
        `misfire` says; a job past its `expires` is left out.

        Returns:
            RESUMED, KEPT (it was not paused), NOT_FOUND or WRONG_GENERATION.
        """
        return self._do(ResumeJobs((key,), if_generation))[0]

    def pause_scope(self, scope: str, *, note: str = "", by: str | None = None) -> Pause:
        """
        Keep all jobs of "handler:mail", "pull:images" (a queue), "webhook" (a target) or "*" (all) from starting.

        They stay pending and use no attempt, also those that are set later. What runs goes on. After the answer none
        starts on this scheduler, and 5 s later none on other nodes. *note* and *by* are as for `pause`.
        """
        return self._outside("pause_scope").pause_scope(scope, note, by)

    def resume_scope(self, scope: str, *, by: str | None = None) -> bool:
        """
        Let the jobs of *scope* start again, as after `resume`, on all nodes within 5 s; return True if it was paused.
        """
        return self._outside("resume_scope").resume_scope(scope, by)

    def paused_scopes(self) -> Sequence[Pause]:
        """
        Return what is paused as a whole, since when, by whom and why; `stats` counts the jobs that wait for each.
        """
        return self._core.client.scopes()

    def skip(self, key: str, *, if_generation: int | None = None) -> Answer:
        """
        Leave out the next run of the recurring job of *key*: it is moved to the run after that one.

        A run that was left out does not count for `max_runs`. A paused job stays paused.

        Returns:
            MOVED, CANCELLED (there is no other run), TOO_LATE (it is running), NOT_FOUND or WRONG_GENERATION.

        Raises:
            InvalidJobError: If the job fires once.
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

        Each run is a job of its own that fires once, `KEY@2030-01-01T09:00:00.000Z`, with the payload, the target and
        the retries that the recurring one has now; that one goes on as it was. An instant whose job still waits or
        runs gets no second one, so a backfill may be repeated. O(runs).

        Args:
            key: The recurring job's.
            since: The first instant that is in the range.
            until: The first that is no longer in it; at most when the next run is due.
            rate: Runs a second, one after the other; None for all of them now.
            limit: Maximum number of runs, 1 to 10,000; the answer has the start of the rest.
            dry_run: True to count them only.

        Raises:
            InvalidJobError: If no recurring job has this key, and for another value, naming the remedy.
            TypeError: For an instant of another type.
        """
        return backfilled(self._outside("backfill"), key, BackfillRange(since, until, rate, limit, dry_run))

    def change(self, key: str, *, if_generation: int | None = None, **fields: Unpack[ChangeFields]) -> Answer:
        """
        Change some of the pending job of *key*, such as its payload or its cron line; the rest stays as it is.

        Attempts, a pause and the count of runs stay. The due time stays the same unless `every`, `cron`, `tz` or
        `exclude` changes; a run that is owed or tried again keeps it in any case. A recurring job that runs changes
        once its run has ended.

        Args:
            key: The job's.
            if_generation: Only if the job has this generation.
            **fields: payload, target, handler, retry, expires; of a recurring job also its rule: see `ChangeFields`.

        Returns:
            CHANGED or UNCHANGED for a recurring job, REPLACED or TOO_LATE (it is running) for one that fires once,
            NOT_FOUND or WRONG_GENERATION, and the job as it now is.

        Raises:
            InvalidJobError: For a value that the job cannot have, a rule for a job that fires once, or no field.
            StoreError: If the store does not answer; transient, if others keep changing the job meanwhile.
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
        Give all pending jobs of *keys* one instant; answers are in order, as `move` has them.
        """
        return self._do(MoveJobs(keys, When(delay, at)), conn)

    def cancel_many(self, keys: Iterable[str], *, running: bool = False, conn: object = None) -> list[Answer]:
        """
        Remove the jobs of *keys*, and with *running* ask those to stop that run; answers are as `cancel` has them.
        """
        return self._do(CancelJobs(keys, running=running), conn)

    def replay_many(self, keys: Iterable[str], *, rate: float | None = None) -> list[Answer]:
        """
        Make the dead jobs of *keys* pending again; answers are in order, as `replay` has them.

        They are due now, or one after the other with *rate* per second.
        """
        return self._do(ReplayJobs(keys, rate=rate))

    def pause_many(self, keys: Iterable[str], *, note: str = "", by: str | None = None) -> list[Answer]:
        """
        Pause the jobs of *keys*; answers are in order, as `pause` has them.
        """
        return self._do(PauseJobs(keys, note, by))

    def resume_many(self, keys: Iterable[str]) -> list[Answer]:
        """
        End the pauses of the jobs of *keys*; answers are in order, as `resume` has them.
        """
        return self._do(ResumeJobs(keys))

    def bulk(
        self, verb: str, prefix: str = "", *, on_progress: BulkProgress | None = None, **fields: Unpack[BulkFields]
    ) -> BulkAnswer:
        """
        Do the same to all jobs that a filter chooses, a thousand a commit: count them first with `dry_run=True`.

        *verb* is "cancel", "move" (with `shift=`), "spread" (with `over=`), "run", "replay" (dead jobs), "pause" or
        "resume". Pending jobs are changed unless `state=` says otherwise; "cancel" and "pause" also change recurring
        jobs that run, as the single verbs do, and "cancel" with `running=True` asks all that run to stop.
        A job that others change meanwhile is left alone, and counted as refused. A run that was interrupted goes on
        with `cursor=`, and so does one that ended at `limit=`; no cursor of a run moves, runs or replays a job twice.

        Args:
            verb: The operation.
            prefix: Of the key; a prefix or another filter is needed.
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

        What is set meanwhile may be left, what runs is. Costs time and memory for all that it returns.

        Args:
            prefix: Of the key; all jobs by default.
            on_progress: Called in this thread after each thousand or so, with how many more were cancelled.
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
            key: The job's name.

        Raises:
            InvalidJobError: If *key* cannot be one.
            StoreError: If the store refuses. If it does not answer, that is the explanation.
        """
        return self._core.explain(key)

    def history(self, key: str, *, before: int | None = None, limit: int = 100) -> Sequence[HistoryRecord]:
        """
        Return what happened to the jobs of *key*, the newest first, also where none has that key any more.

        It is written in the commit that ends an attempt, and bounded: `SchedulerOptions.history` says what is kept.

        Args:
            key: The job's name.
            before: Only records with numbers below this one; that of the last one goes on from there.
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
        Return a page of jobs in the order of their keys; go on with `cursor=page.cursor` until that is None.

        A page looks through 10,000 keys at most, 2,000 on Redis, and so takes some ten milliseconds: one may hold fewer
        jobs than asked for, even none, and still not be the last. O(pages) for what few jobs match.

        Args:
            prefix: Of the key.
            **fields: The filters, and cursor and limit: see `ListFields`.
        """
        check_names("list", fields, ListRest.__annotations__)
        return self._core.client.page({"prefix": prefix, **fields})
