from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.host.backend import Backend
from tickwheel.host.lane_names import limits_in
from tickwheel.host.options import SchedulerOptions
from tickwheel.host.runtime import Runtime
from tickwheel.jobs import checks
from tickwheel.jobs.errors import UnsupportedError
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.model import RetryPolicy
from tickwheel.jobs.retry import check_policy
from tickwheel.observe.events import EventHook
from tickwheel.observe.tracing import Tracer
from tickwheel.remote import is_service
from tickwheel.scheduler._core import Core
from tickwheel.scheduler._dropped import stop_when_dropped
from tickwheel.scheduler.tasks import Around, Task, TaskFields, TaskMaker, WithFiring, check_task, made
from tickwheel.stores import Store
from tickwheel.targets import DEFAULT, Default, Firing, Target
from tickwheel.targets.handler import Middleware, name_of
from tickwheel.typing import Duration, ExecutorName

if TYPE_CHECKING:
    from typing import Concatenate

__all__ = ["Common"]

_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_Middleware = TypeVar("_Middleware", bound=Middleware)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Common:
    """
    The methods that do not wait for the store. `Scheduler` and `AsyncScheduler` share them.

    Args:
        store: A URL ("sqlite:///file.db", "memory://", ...), a store object that has no other user, or the address of a
            service ("http://127.0.0.1:8765"). A service fires the jobs, and this scheduler's handlers pull their jobs
            from the service.
        targets: Additional targets, or built-in targets with other settings, keyed by the `target` that jobs name.
        clock: The source of time; for tests.
        tracer: Creates spans of firings, such as `tickwheel.observe.otel.OpenTelemetryTracer`.
        token: Access token of a service; None for the environment variable TICKWHEEL_TOKEN.
        timeout: Maximum time for an answer of a service, with all retries, in seconds.

    Raises:
        UnsupportedError: For targets, a clock or a tracer with a service, or a token or timeout without a service.
        StoreError: If the URL does not name a store. The store itself is opened on first use.
        MissingExtraError: If a library that the store needs is not installed.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///tickwheel.db",
        *,
        options: SchedulerOptions | None = None,
        targets: Mapping[str, Target] | None = None,
        clock: Clock | None = None,
        tracer: Tracer | None = None,
        token: str | None = None,
        timeout: Duration | None = None,
    ) -> None:
        knobs = options or SchedulerOptions()
        self._core: Backend
        if is_service(store):
            for name, value in (("targets", targets), ("clock", clock), ("tracer", tracer)):
                if value is not None:
                    what, remedy = f"{name}= was passed with a service", "pass it where the service is started"
                    raise UnsupportedError(what, remedy)
            timeout_s = None if timeout is None else checks.seconds("timeout", timeout)
            from tickwheel.remote import RemoteCore  # noqa: PLC0415  few programs are clients of a service

            self._core = RemoteCore(str(store), knobs, token, timeout_s)
            stop_when_dropped(self, self._core)
            return
        if token is not None or timeout is not None:
            what, remedy = "token= or timeout= was passed with a store", "pass it with http://host:port"
            raise UnsupportedError(what, remedy)
        self._core = Core(store, knobs, targets or {}, self._runtime(clock or MonotonicClock()), tracer)
        stop_when_dropped(self, self._core)

    def _runtime(self, clock: Clock) -> Runtime:
        return Runtime(clock=clock)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core}>"

    @overload
    def handler(self, name: _Handler, /) -> _Handler: ...

    @overload
    def handler(
        self,
        name: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: Duration | Default | None = DEFAULT,
        concurrency: int | Default | None = DEFAULT,
        rate: float | None = None,
        lane: str | None = None,
        executor: ExecutorName = "thread",
    ) -> Callable[[_Handler], _Handler]: ...

    def handler(
        self,
        name: str | _Handler | None = None,
        *,
        retry: RetryPolicy | None = None,
        timeout: Duration | Default | None = DEFAULT,
        concurrency: int | Default | None = DEFAULT,
        rate: float | None = None,
        lane: str | None = None,
        executor: ExecutorName = "thread",
    ) -> Callable[[_Handler], _Handler] | _Handler:
        """
        Register the decorated function as the handler of jobs with `handler=name`.

        The function gets the payload and, if it takes two arguments, the `Firing`. A `def` runs in a worker thread, and
        an `async def` on the scheduler's event loop. An attempt fails if the function raises, and succeeds if it
        returns any value except a `DeadLetter`, `Snooze` or `Retry`.

        Args:
            name: The name that jobs give; None for the function's name, as for a plain `@scheduler.handler`.
            retry: The retry policy for this handler's jobs that this scheduler sets without `retry=`.
            timeout: Seconds after which an attempt counts as failed; None for no timeout. The default is
                `SchedulerOptions.timeout_s`, half an hour. A heartbeat restarts the timeout. A thread cannot be
                stopped, so a `def` continues after its timeout, but its result is ignored.
            concurrency: Maximum number of simultaneous attempts on this scheduler. An attempt counts from shortly
                before its due time until its result is written. The default is three quarters of the threads, tasks or
                processes, at least one, so that a hanging handler leaves room for other handlers. None for all workers.
            rate: Maximum number of attempts that start in a second, evenly spaced, on this scheduler.
            lane: Name of the lane (a group of handlers), 1 to 255 bytes of UTF-8; None for a separate lane. Handlers of
                a lane share one `concurrency` and one `rate` (register equal values for all of them), and one lane's
                share of workers and memory; see `explain` and `stats()["lanes"]`. Register equal lanes in all
                processes, because each process uses its own registrations.
            executor: "thread", or "process" for one of `SchedulerOptions.processes` processes. If the process crashes,
                or is killed at the timeout, only the attempt of this job fails. "process" requires a plain function at
                the top level of a module, and `if __name__ == "__main__":` in the main module.

        Raises:
            InvalidJobError: If the name is taken or invalid, a limit is not positive, the lane has handlers with
                different limits, or *executor* is "process" and a new process could not import the function.
            TypeError: If the function takes neither one nor two arguments.
        """
        if callable(name):
            return self.handler()(name)

        def register(function: _Handler) -> _Handler:
            policy = None if retry is None else check_policy(retry)
            limits = limits_in(self._core.handlers, lane, concurrency, rate)
            timeout_s = timeout if isinstance(timeout, Default) else checks.limit_s("timeout", timeout)
            self._core.handlers.register(
                name_of(function) if name is None else name,
                function,
                policy,
                timeout_s=timeout_s,
                limits=limits,
                executor=executor,
            )
            return function

        return register

    @overload
    def task(self, function: WithFiring[_P, _R], /) -> Task[_P, Concatenate[Firing, _P], _R]: ...

    @overload
    def task(self, function: Callable[_P, _R], /) -> Task[_P, _P, _R]: ...

    @overload
    def task(self, function: None = None, /, **fields: Unpack[TaskFields]) -> TaskMaker: ...

    def task(self, function: Callable[..., Any] | None = None, /, **fields: Unpack[TaskFields]) -> Any:
        """
        Make the decorated function a task: a handler with typed arguments, which jobs call.

        `scheduler.set(key, cancel_order.of(number=17), delay="30m")` sets a job that calls the function, and
        `cancel_order(17)` calls it immediately. The payload is JSON with the arguments by name. The annotations
        determine the types, such as enums, datetimes, UUID, Decimal, dataclasses, msgspec Structs and pydantic models.
        A parameter `firing` gets the `Firing`; it must be the first parameter, or have a default. Results and
        exceptions have the meanings that `handler` describes.

        A job whose arguments do not fit the function uses no attempt, and waits for a node whose function takes them.
        *timeout*, *concurrency*, *rate*, *lane* and *executor* are as for `handler`.

        Args:
            function: The function, if `@scheduler.task` is used without brackets.
            name: The task's name in jobs; the default is `module.qualname`. A function of the main module, or inside
                another function, has no default name.
            aliases: Earlier names. The task also runs jobs with these names.
            retry: The retry policy for this task's jobs that are set without `retry=`.
            retry_on: The classes of exceptions after which the job is retried. After any other exception, it becomes a
                dead letter. The default is all exceptions. An attempt that is ended from outside, for example by its
                timeout, is always retried.
            dead_on: The classes of exceptions after which the job is not retried. They take precedence over *retry_on*.

        Raises:
            InvalidJobError: If the function has no default name, a name is taken, or an option is invalid.
            TypeError: If no payload could call the function: it has `*args`, or its `firing` is not the first parameter
                and has no default.
        """
        return made(function, fields, lambda task: task.register(self._core.handlers))

    def register(self, *tasks: Task[..., ..., Any]) -> None:
        """
        Run the jobs of *tasks* (made by `tickwheel.scheduler.task`) on this scheduler. May be called after `start`.

        Raises:
            InvalidJobError: If a name is taken, or one of *tasks* is not a task.
        """
        for each in tasks:
            check_task(each).register(self._core.handlers)

    def register_within(self, task: Task[..., ..., Any], around: Around) -> None:
        """
        For integrations: run the jobs of *task* on this scheduler, with each attempt wrapped by *around*.
        """
        check_task(task).register(self._core.handlers, around)

    def middleware(self, around: _Middleware) -> _Middleware:
        """
        Run each attempt from now on inside the context manager that *around* returns for it; usable as a decorator.

        *around* gets the `Firing` and returns a context manager, for example as a function with `@contextmanager`. The
        context manager wraps both `def` and `async def` handlers. An exception that the context manager raises ends the
        attempt. The middleware that is registered first is the outermost. For handlers with the executor "process", the
        context manager is entered in this process.
        """
        self._core.handlers.add_middleware(around)
        return around

    def has_handler(self, name: str) -> bool:
        """
        Return True if a handler of that *name* is registered here. `set` accepts names without a handler.
        """
        return self._core.handlers.has(name)

    def stats(self, *, with_store: bool = True) -> dict[str, Any]:
        """
        Return the counters and figures.

        * Counts of this process: fired, succeeded, failed, retried, snoozed, expired, dead_total, refused.
        * Counts of the store: pending, running (an attempt is counted), dead.
        * Counts of the jobs in memory: staged (not begun), waiting (due, but no worker is free), in_flight (running at
          their targets).
        * `leaked`: for each handler and executor, the number of attempts that still run after their timeouts.
        * `full_lanes`: up to 50 handlers or receivers that have more jobs than their share of memory, with the number
          of staged jobs and the reason: "paused", "no_handler", "rate", "concurrency", "no_worker" (of a pull queue) or
          "busy". Jobs of other lanes are not delayed.
        * `lanes`: up to 50 lanes with jobs in memory or running, as the fields of `LaneState`; lanes whose jobs wait
          come first. The remaining lanes are summed as "(others)".
        * `lateness` and `commit`: distributions of the lateness of firings and of the duration of commits.
        * `owner` and `epoch`: name and highest epoch of this process; None if it owns no shard.
        * `store` and `offset_ms`: the store's URL, and the difference between its clock and this process's clock.

        Args:
            with_store: False to omit figures that need the store (pending, running, dead, paused, paused_scopes,
                waiting_for_handler, next_due_at, shards_all). The call then never waits for the store.

        Raises:
            ClosedError: If the scheduler was stopped.
            StoreError: If the store does not answer. If *with_store* is False, only a client of a service raises this.
        """
        return self._core.stats(with_store=with_store)

    def advertise(self, url: str, secret: str) -> None:
        """
        Report the address of this process's service to the other nodes of the store. `tickwheel serve` calls this.

        The report is part of each heartbeat, so call it before `start`. *url* is such as "http://10.0.0.1:8765". The
        other nodes send *secret* with each request that they forward.

        Raises:
            UnsupportedError: If this scheduler is the client of a service.
        """
        self._core.advertise(url, secret)

    def subscribe(self, hook: EventHook, *, routine: bool = True) -> Callable[[], None]:
        """
        Call *hook* with every later event (`tickwheel.observe.events`); return a function that ends the subscription.

        The hook is called on the scheduler's threads and must not block. Its exceptions are logged. If *routine* is
        False, the hook gets only the rarer events, such as failures, deaths and changes of owner. Routine events, such
        as firings and successes, cost time at every firing.
        """
        return self._core.subscribe(hook, routine=routine)

    def recent(self, after: int = 0) -> Sequence[FiringRecord]:
        """
        Return the last firings of this scheduler: finished firings, oldest first, then running firings.

        The scheduler keeps 500 finished firings. With *after*, finished firings up to number *after* are omitted.
        """
        return self._core.recent(after)

    @property
    def is_started(self) -> bool:
        """
        True from `start` to `stop`, while this scheduler fires jobs, or waits for a store that it cannot reach.
        """
        return self._core.is_firing

    @property
    def is_ready(self) -> bool:
        """
        True while this scheduler fires jobs or could fire them: it is started, and its store has answered lately.

        The result becomes False when renewals of the scheduler's leases were unanswered for the length of a lease, and
        immediately when another process has become the owner of the store's file. A node without shards is also ready
        if other nodes have all shards. A client of a service is ready from `start` to `stop`. Does no I/O.
        """
        return self._core.is_ready
