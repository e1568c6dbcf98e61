"""
The protocol of a target, the destination of fired jobs.

A target resolves a handler's name into a `Call`, which the dispatcher then makes for every firing. The result of a call
decides the outcome of the attempt: `DeadLetter`, `Snooze` and `Retry` are explained below, any other value means
success, and an exception means a failed attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol, runtime_checkable

from tickwheel.jobs.errors import JobStoppedError
from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Answer, Job, Progress
from tickwheel.jobs.recurrence import nominal_of
from tickwheel.observe.events import Event
from tickwheel.typing import Duration

__all__ = [
    "DEFAULT",
    "Abandoned",
    "Call",
    "Checking",
    "Choosy",
    "DeadLetter",
    "Default",
    "End",
    "FinalError",
    "Firing",
    "HasHandlers",
    "Limiting",
    "Limits",
    "Reporting",
    "Requiring",
    "Retry",
    "Snooze",
    "Target",
]


class Default(Enum):
    """
    The type of `DEFAULT`.
    """

    DEFAULT = "default"

    def __repr__(self) -> str:
        return self.name


DEFAULT: Final = Default.DEFAULT
"""Means the scheduler's default limit, whereas None means no limit."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """
    A result with which a handler ends the job, without a retry or a next run.

    The job becomes a dead letter with *reason*.
    """

    reason: str = "cancelled by its handler"


@dataclass(frozen=True, slots=True)
class Snooze:
    """
    A result with which a handler asks to be called again in *delay* seconds, at least one.

    The attempt does not count.

    Attributes:
        reason: Shown as the job's error until the next call; "" leaves the error unchanged.
    """

    delay: Duration
    reason: str = ""


GIVE_BACK: Final = Snooze(0)
"""The scheduler's own result for an attempt that is released immediately, for example by a worker that stops."""


@dataclass(frozen=True, slots=True)
class Retry:
    """
    A result with which a handler asks for another attempt in *after* seconds (None: as in the job's policy).

    The result has an effect only if the policy allows another attempt.
    """

    after: Duration | None = None
    reason: str = "the handler asked for another attempt"


class Stopping(Protocol):
    """
    Shows that an attempt must stop; internal.

    Attributes:
        overlap_cancelled: True if the attempt must stop for the next run of its job, False if the job was cancelled.
        expire: A function to call when the attempt must stop, or None.
    """

    is_stopped: bool
    overlap_cancelled: bool
    expire: Callable[[], object] | None


@dataclass(frozen=True, slots=True)
class Firing:
    """
    One attempt to run a job, as its handler sees it.

    Attributes:
        job: The job, with its encoded payload.
        attempt: Number of the attempt, from 1.
        fired_at: Time of the call, in ms since the epoch on the store's clock, with a fraction.
        stopping: For targets: shows whether the running job was cancelled.
    """

    job: Job
    attempt: int
    fired_at: float
    _beat: Callable[[Progress | None], bool] = field(default=lambda _: True, repr=False, compare=False)
    _trace: str | None = field(default=None, repr=False, compare=False)
    stopping: Stopping | None = field(default=None, repr=False, compare=False)

    @property
    def fire_id(self) -> str:
        """
        The unique name of this attempt.
        """
        return f"{self.job.key}/{self.job.generation}/{self.attempt}"

    @property
    def message_id(self) -> str:
        """
        The id of the message, the same for all attempts of one run. Use it to recognise duplicates.

        The id has at most 50 letters, digits and underscores. It differs between keys, between runs, between a job and
        a later job with the same key, and between independent stores. A run that has had an attempt keeps its id when
        it is moved, or migrated to another store.
        """
        return message_id_of(self.job)

    @property
    def nominal_at(self) -> int | None:
        """
        The nominal instant of this run, before any jitter, in ms since the epoch; None for a one-time job.

        This is the instant that the job's rule gives for the run. It is the same for all attempts of the run, even
        after snoozes, moves and takeovers, so use it to compute the day of a report. With misfire="once", it is the
        first of the missed instants.
        """
        return nominal_of(self.job.key, self.job.due_at, self.job.recurrence)

    @property
    def lateness_ms(self) -> float:
        """
        The time from the due time to the call, in ms.
        """
        return self.fired_at - self.job.due_at

    @property
    def trace(self) -> str | None:
        """
        The W3C traceparent to pass on: the firing's own, or the job's if the firing is not traced.
        """
        return self._trace or self.job.trace

    def heartbeat(self) -> bool:
        """
        Restart the handler's timeout, for a long job that makes progress.

        An async handler calls this on its own event loop. The result is True if the attempt is still valid. After the
        timeout the result is False, and further work is useless.

        Raises:
            JobStoppedError: If the job was cancelled while it runs; do not catch it.
        """
        return self._go_on(None)

    def progress(self, fraction: float, note: str = "") -> bool:
        """
        Record the progress of the attempt, for `Scheduler.progress` and the web page. The call is also a heartbeat.

        *fraction* is from 0.0 to 1.0. *note* is the state of the work, or a result so far, truncated to 200 characters.
        The call writes nothing to the store. The last note goes into the history when the attempt ends. Returns the
        result of `heartbeat`.

        Raises:
            InvalidJobError: If *fraction* is outside this range, or *note* is not a string.
            JobStoppedError: If the job was cancelled while it runs; do not catch it.
        """
        return self._go_on(Progress.of(fraction, note))

    def _go_on(self, progress: Progress | None) -> bool:
        if self.cancelled:
            raise JobStoppedError(self.fire_id)
        return self._beat(progress)

    @property
    def cancelled(self) -> bool:
        """
        True if the job was cancelled while it runs, or if it has `overlap="cancel"` and its next run is due.

        A handler on a thread should check this, and return early.
        """
        return self.stopping is not None and self.stopping.is_stopped

    @property
    def is_last_attempt(self) -> bool:
        """
        True if a failure now is final.
        """
        return self.attempt >= self.job.retry.attempts


class Abandoned(Exception):  # noqa: N818  not an error
    """
    Raised by a call that a stop of the scheduler interrupted. Its outcome is unknown; the next owner recovers the job.
    """


class FinalError(Exception):
    """
    Raised by a call if an error of the handler ends the job. The `__cause__` is the handler's error.
    """


@dataclass(frozen=True, slots=True)
class Call:
    """
    A function to call for the jobs of one handler, and the way to call that function.

    Attributes:
        is_async: True if the function returns an awaitable, to be awaited on the scheduler's event loop.
        wants_payload: True if the function takes the decoded payload.
        wants_firing: True if the function takes the `Firing`: after the payload, or as the only argument.
        timeout_s: Timeout of an attempt; `DEFAULT` for the scheduler's own timeout, None for no limit.
        width: Maximum number of threads, processes or tasks that attempts occupy; None for no limit. `DEFAULT` means
            three quarters of the total, so that hanging attempts leave room for other handlers.
        is_held: True if the target itself starts and ends the attempts. The function gets pairs of a `Firing` and its
            `End`, and returns immediately. Each attempt lasts until its `End` is called, and needs no thread or task.
            If the function raises, its unfinished attempts fail with that error.
        in_process: True if the function only waits for another process. Such a call should not occupy a worker thread.
    """

    function: Callable[..., Any]
    is_async: bool = False
    wants_payload: bool = True
    wants_firing: bool = False
    timeout_s: float | Default | None = DEFAULT
    width: int | Default | None = DEFAULT
    is_held: bool = False
    in_process: bool = False


class End(Protocol):
    """
    Starts and ends an attempt that the target itself controls (`Call.is_held`). May be called from any thread.
    """

    def start(self) -> Callable[[], object] | None:
        """
        Start the attempt. Before this call, the job can be moved, cancelled and set again.

        `start` calls no other code, so it may be called under a lock.

        Returns:
            A function that reports the start to observers; call it without a lock. None if the attempt must not start.
        """

    def note(self, progress: Progress) -> None:
        """
        Store the progress of the attempt. No observer is called.
        """

    def __call__(
        self,
        result: object = None,
        error: BaseException | None = None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        """
        End the attempt with the result or the error of a call. *on_answer* gets the store's answer after the commit.

        Returns:
            False if the attempt had already ended. Then nothing is reported.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The limits of a handler, on this scheduler.

    Attributes:
        concurrency: Maximum number of its simultaneous attempts, or None. An attempt counts from shortly before its due
            time until its result is written. `DEFAULT` for three quarters of `SchedulerOptions.running_max`.
        rate: Maximum number of starts per second, evenly spaced, or None.
        places: A function that returns the current maximum number of attempts, for a changing limit; or None.
    """

    concurrency: int | Default | None = DEFAULT
    rate: float | None = None
    places: Callable[[], int] | None = None


class Target(Protocol):
    """
    A kind of destination.

    `check` and `resolve` may be called from any thread. A target with connections opens them on first use.
    """

    def check(self, handler: str) -> None:
        """
        Refuse a handler's name that is invalid for this target.

        The scheduler calls this when a job is set, possibly in a process that fires no jobs. So an unknown but valid
        name is allowed.

        Raises:
            InvalidJobError: Naming the value and the remedy.
        """

    def resolve(self, handler: str) -> Call:
        """
        Return the call for the jobs of *handler*. The call is valid until `close`.

        Raises:
            HandlerNotFoundError: If there is no such handler; the job is set aside.
            TickwheelError: If the handler cannot be run here. The message has the remedy, and the job is set aside.
        """

    async def close(self) -> None:
        """
        Release connections. Awaited once, after the last call, on the event loop that awaited the calls.

        A scheduler that is started later may use the target again, on another event loop.
        """


@runtime_checkable
class HasHandlers(Protocol):
    """
    The methods of a target that can run some handlers and not others.

    A job with a missing handler uses no attempt here, and waits for a node with the handler. A target without these
    methods accepts every job.
    """

    def has(self, name: str) -> bool:
        """
        Return True if there is a handler of that *name*. May be called from any thread.
        """

    def names(self) -> list[str]:
        """
        Return the names of all handlers. May be called from any thread.
        """


@runtime_checkable
class Limiting(Protocol):
    """
    The method of a target that limits how many of its jobs run at once.
    """

    def limits(self, handler: str) -> Limits | None:
        """
        Return the limits of the lane of *handler*, or None. The result is constant for each lane.

        In a target of your own, handlers with URLs have a lane for each scheme, host and port. All other handlers share
        one
        lane. May be called from any thread.
        """


@runtime_checkable
class Requiring(Protocol):
    """
    The methods of a target that needs a library.
    """

    def require(self) -> None:
        """
        Import the library. A scheduler calls it when it starts.

        Raises:
            MissingExtraError: If the library, or one of its dependencies, is missing.
        """


@runtime_checkable
class Checking(Protocol):
    """
    The methods of a target that reads the payload of its jobs.
    """

    def check_payload(self, payload: bytes) -> None:
        """
        Refuse an encoded payload that is invalid for this target. Called when a job is set, from any thread.

        Raises:
            InvalidJobError: Naming the value and the remedy.
        """


@runtime_checkable
class Choosy(Protocol):
    """
    The methods of a target that can run some payloads of a handler and not others.

    A job with an unsuitable payload uses no attempt here. It waits for a node whose handler accepts the payload, for
    example with another version of the program.
    """

    def is_choosy(self, handler: str) -> bool:
        """
        Return True if *handler* may refuse a payload. May be called from any thread, and does not block.
        """

    def misfit(self, handler: str, payload: bytes) -> str | None:
        """
        Return the reason why *handler* cannot accept the encoded *payload*; None if it can. Callable from any thread.
        """


@runtime_checkable
class Reporting(Protocol):
    """
    The members of a target that reports its own events and figures.
    """

    def report_to(self, emit: Callable[[Event], object]) -> None:
        """
        Pass events to *emit* from now on. *emit* may be called from any thread, and does not block.
        """

    def figures(self) -> dict[str, Any]:
        """
        Return the target's entry in `stats()["targets"]`. May be called from any thread.
        """
