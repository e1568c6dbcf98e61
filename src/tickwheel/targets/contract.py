"""
The protocol of a target: where a fired job goes.

A target resolves the handler's name that a job carries into a `Call`, once; the dispatcher makes it for every firing.
What a call returns is a value, not an exception: anything means done, and the three below mean something else.
What it raises is a failed attempt.
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
    "USUAL",
    "Abandoned",
    "Call",
    "Checking",
    "Choosy",
    "DeadLetter",
    "End",
    "FinalError",
    "Firing",
    "Limiting",
    "Limits",
    "Naming",
    "Reporting",
    "Requiring",
    "Retry",
    "Snooze",
    "Target",
    "Usual",
]


class Usual(Enum):
    """
    The type of `USUAL`.
    """

    USUAL = "usual"

    def __repr__(self) -> str:
        """
        Return the name by which it is imported.
        """
        return self.name


USUAL: Final = Usual.USUAL
"""In place of a limit: the one that the scheduler has for all; None means no limit at all."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """
    Return it to end the job here: no retry, no next run. It is parked as a dead letter with *reason*.
    """

    reason: str = "cancelled by its handler"


@dataclass(frozen=True, slots=True)
class Snooze:
    """
    Return it to be called again in *delay* seconds, one at least; the attempt does not count.

    Attributes:
        delay: In how many seconds.
        reason: Why, to be shown as the job's error meanwhile; "" leaves that as it is.
    """

    delay: Duration
    reason: str = ""


GIVE_BACK: Final = Snooze(0)
"""What the scheduler itself says of an attempt that goes back at once, such as by a worker that stops."""


@dataclass(frozen=True, slots=True)
class Retry:
    """
    Return it for another attempt in *after* seconds (None: by the job's policy); after the last attempt the job dies.
    """

    after: Duration | None = None
    reason: str = "the handler asked for another attempt"


class Stopping(Protocol):
    """
    The means to learn that an attempt must stop; internal.

    Attributes:
        is_stopped: True if the attempt must stop.
        is_overtaken: True if the reason is the next run of its job, and not a cancel.
        expire: Called when the attempt must stop; a function that is set later is not called.
    """

    is_stopped: bool
    is_overtaken: bool
    expire: Callable[[], object] | None


@dataclass(frozen=True, slots=True)
class Firing:
    """
    One attempt to run a job, as its handler sees it.

    Attributes:
        job: The job; its `payload` is the encoded one.
        attempt: Which attempt this is, from 1.
        fired_at: When it was handed over, in ms since the epoch by the store's clock, with their fraction.
        stopping: For targets: how they learn that the job was cancelled while it runs.
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
        The name of this attempt; another attempt of the same life has another.
        """
        return f"{self.job.key}/{self.job.generation}/{self.attempt}"

    @property
    def message_id(self) -> str:
        """
        The name of the message, the same for all attempts of one run: deduplicate by it.

        Letters, digits and underscores, at most 50; it differs between keys, runs, lives, and stores that count
        generations of their own. A run that was tried keeps it when it is moved, or migrated to another store.
        """
        return message_id_of(self.job)

    @property
    def nominal_at(self) -> int | None:
        """
        The instant that the job's rule named for this run, before any jitter, in ms since the epoch.

        It is the same for all attempts of a run, after snoozes, moves and takeovers, so compute the day of a report
        from it. With misfire="once" it is the first of the instants that were missed. It is None for a job that fires
        once.
        """
        return nominal_of(self.job.key, self.job.due_at, self.job.recurrence)

    @property
    def lateness_ms(self) -> float:
        """
        The time from its instant until it was handed over, in ms.
        """
        return self.fired_at - self.job.due_at

    @property
    def trace(self) -> str | None:
        """
        The W3C traceparent to hand on: the firing's own where it is traced, or else the job's.
        """
        return self._trace or self.job.trace

    def heartbeat(self) -> bool:
        """
        Let the handler's timeout begin again; for a long job that is making progress.

        An async handler calls it on its own event loop.

        Returns:
            True if the attempt still counts. Once it timed out it does not, and there is no use in going on.

        Raises:
            JobStoppedError: If the job was cancelled while it runs; let it end the handler.
        """
        return self._go_on(None)

    def progress(self, fraction: float, note: str = "") -> bool:
        """
        Note how far the attempt has come, for `Scheduler.progress`, the page and others to see; a heartbeat, too.

        It costs no write to the store: the last note, such as a short result, is kept in the history, with the end.

        Args:
            fraction: From 0.0 to 1.0.
            note: Where it is, or what it has found so far; the first 200 characters are kept.

        Returns:
            As `heartbeat`.

        Raises:
            InvalidJobError: For another *fraction*, or a *note* that is not a string.
            JobStoppedError: As `heartbeat`.
        """
        return self._go_on(Progress.of(fraction, note))

    def _go_on(self, progress: Progress | None) -> bool:
        if self.cancelled:
            raise JobStoppedError(self.fire_id)
        return self._beat(progress)

    @property
    def cancelled(self) -> bool:
        """
        True if the job was cancelled while it runs, or its next run is due and `overlap="cancel"`.

        A handler on a thread looks, and returns early.
        """
        return self.stopping is not None and self.stopping.is_stopped

    @property
    def is_last_attempt(self) -> bool:
        """
        True if a failure now is final.
        """
        return self.attempt >= self.job.retry.attempts


class Abandoned(Exception):  # noqa: N818  it is not an error
    """
    Raised by a call that a stop has cut off: how it ended is not known, and the next owner takes the job up.
    """


class FinalError(Exception):
    """
    Raised by a call from an error of its handler's after which there is no further attempt; its cause is that error.
    """


@dataclass(frozen=True, slots=True)
class Call:
    """
    A function to call for the jobs of one handler, and how to call it.

    Attributes:
        function: What to call.
        is_async: True if it returns an awaitable, to be awaited on the scheduler's event loop.
        wants_payload: True if it takes the decoded payload.
        wants_firing: True if it takes the `Firing`, after the payload if it takes that, too.
        timeout_s: After which it counts as failed; `USUAL` for the scheduler's own timeout, None for never.
        width: How many places among the threads, processes or tasks its attempts may take; `USUAL` for three quarters,
            so that others go on while they hang, None for all.
        is_held: True if the target starts and ends the attempts in its own time: the function gets pairs of a `Firing`
            and its `End`, returns at once, and each goes on until its end is called. No thread or task waits for it.
            Where the function raises, what has not ended fails with that.
        in_process: True if it waits for a process, so that it may not take a place among the threads.
    """

    function: Callable[..., Any]
    is_async: bool = False
    wants_payload: bool = True
    wants_firing: bool = False
    timeout_s: float | Usual | None = USUAL
    width: int | Usual | None = USUAL
    is_held: bool = False
    in_process: bool = False


class End(Protocol):
    """
    The means to start and end a held attempt; from any thread.
    """

    def start(self) -> Callable[[], object] | None:
        """
        Start the attempt; until then the job can be moved, cancelled and set again.

        It calls nobody and may be called under a lock.

        Returns:
            Reports the start to observers, to be called without a lock; None if the attempt may not start, and is not
            to be handed on.
        """

    def note(self, progress: Progress) -> None:
        """
        Note how far it has come; nobody is called.
        """

    def __call__(
        self,
        result: object = None,
        error: BaseException | None = None,
        on_answer: Callable[[Answer | Exception], object] | None = None,
    ) -> bool:
        """
        End it with what a call would return or raise; *on_answer* gets the store's answer once that is written down.

        Returns:
            True if it had not ended before; otherwise nothing is reported.
        """


@dataclass(frozen=True, slots=True)
class Limits:
    """
    The limits of a handler, on this scheduler.

    Attributes:
        concurrency: How many of its attempts may be under way at once, or None; one is so from shortly before its
            instant until its end is written. `USUAL` for three quarters of `SchedulerOptions.running_max`.
        rate: How many may begin in a second, evenly spaced, or None.
        places: Returns how many may be under way just now, where that changes, or None.
    """

    concurrency: int | Usual | None = USUAL
    rate: float | None = None
    places: Callable[[], int] | None = None


class Target(Protocol):
    """
    A kind of place.

    `check` and `resolve` may be called from any thread. A target that holds connections opens them on first use.
    """

    def check(self, handler: str) -> None:
        """
        Refuse a handler's name that no job of this target can have.

        Called when a job is set, possibly in a process that fires nothing: an unknown but possible name is allowed.

        Raises:
            InvalidJobError: Naming the value and the remedy.
        """

    def resolve(self, handler: str) -> Call:
        """
        Return how to run the jobs of *handler*; the answer holds until `close`.

        Raises:
            HandlerNotFoundError: If there is none of that name; the job is parked.
            TickwheelError: If it cannot be run here, with the remedy; the job is parked.
        """

    async def close(self) -> None:
        """
        Let go of connections; awaited once on the event loop that awaited the calls. Never before the last call ended.

        A scheduler that is started later may use the target again, on another event loop.
        """


@runtime_checkable
class Naming(Protocol):
    """
    The methods of a target that can run some handlers and not others.

    Jobs of the others are not tried here, and use no attempt: they wait for a node that has their handler. Of a target
    without this, and of one that names a handler, every job is taken.
    """

    def has(self, name: str) -> bool:
        """
        Return True if there is a handler of that *name*; from any thread.
        """

    def names(self) -> list[str]:
        """
        Return the names of all; from any thread.
        """


@runtime_checkable
class Limiting(Protocol):
    """
    The method of a target that limits its jobs.
    """

    def limits(self, handler: str) -> Limits | None:
        """
        Return the limits of the lane of *handler*, or None; from any thread, and always the same for one lane.

        The jobs of a target share one lane. Those whose handlers are addresses share one for each scheme, host and
        port.
        """


@runtime_checkable
class Requiring(Protocol):
    """
    The methods of a target that needs a library.
    """

    def require(self) -> None:
        """
        Import the library; called when a scheduler starts.

        Raises:
            MissingExtraError: If it is missing, or something that it needs itself.
        """


@runtime_checkable
class Checking(Protocol):
    """
    The methods of a target that reads the payload of its jobs.
    """

    def check_payload(self, payload: bytes) -> None:
        """
        Refuse an encoded payload that no job of this target can have; called when a job is set, from any thread.

        Raises:
            InvalidJobError: Naming the value and the remedy.
        """


@runtime_checkable
class Choosy(Protocol):
    """
    The methods of a target that can run some payloads of a handler and not others.

    A job with another payload is not tried here, and uses no attempt: it waits for a node whose handler takes it, such
    as one of another version of the program.
    """

    def is_choosy(self, handler: str) -> bool:
        """
        Return True if there is a payload that *handler* cannot take; from any thread, and at once.
        """

    def misfit(self, handler: str, payload: bytes) -> str | None:
        """
        Return why *handler* cannot take the encoded *payload* here, or None if it can; from any thread.
        """


@runtime_checkable
class Reporting(Protocol):
    """
    The members of a target that reports events and figures of its own.
    """

    def report_to(self, emit: Callable[[Event], object]) -> None:
        """
        Give events to *emit* from now on; from any thread, and without waiting.
        """

    def figures(self) -> dict[str, Any]:
        """
        Return what is to appear in `stats()["targets"]` under the target's name; from any thread.
        """
