from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from tickwheel.drivers import TimerWheel
from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.errors import ClosedError
from tickwheel.host.hooks import Hooks
from tickwheel.host.options import SchedulerOptions
from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.host.writer import Writer
from tickwheel.observe.tracing import Tracer
from tickwheel.stores import Store

__all__ = ["Resources", "ThreadStarter"]

_RETRY_S: Final = 1.0


class ThreadStarter:
    """
    Starts threads for one *purpose*, which appears in the log.
    """

    def __init__(self, purpose: str, hooks: Hooks, pacer: TimerWheel) -> None:
        self._purpose = purpose
        self._hooks = hooks
        self._pacer = pacer
        self._is_refused = False

    def start(self, start: Callable[[], object], again: Callable[[], object]) -> bool:
        """
        Call *start*; return True if the system could start a thread. If not, call *again* a second later.

        Until then, further calls return False and do nothing. The caller may hold a lock that *again* takes.
        """
        if self._is_refused:
            return False
        try:
            start()
        except (RuntimeError, OSError) as error:  # "can't start new thread", and "too many open files" for a loop
            self._is_refused = True
            with suppress(ClosedError):  # the scheduler stops
                self._pacer.call_later(_RETRY_S, self._retry, again, error)
        return not self._is_refused

    def _retry(self, again: Callable[[], object], error: Exception) -> None:
        self._hooks.failed(f"starting {self._purpose}", error)
        self._is_refused = False
        again()


@dataclass(frozen=True, slots=True)
class Resources:
    """
    The objects that all parts of the engine share.

    Attributes:
        owner: The unique name under which the store knows this run of the scheduler. A restart gets another name.
        writer: Makes all writes of jobs to the store.
        timers: The wheel of jobs that are due soon, on the scheduler's clock.
        pacer: A wheel on the real clock, for waits on threads and stores. The same wheel as `timers`, unless a test
            moves the scheduler's clock by hand.
        tracer: Makes spans of firings; None without tracing.
    """

    runtime: Runtime
    owner: str
    store: Store
    writer: Writer | PartitionedWriter
    clock: StoreClock
    elapsed: RelativeJobs
    timers: TimerWheel
    pacer: TimerWheel
    hooks: Hooks
    options: SchedulerOptions
    tracer: Tracer | None = None

    def starter(self, purpose: str) -> ThreadStarter:
        return ThreadStarter(purpose, self.hooks, self.pacer)
