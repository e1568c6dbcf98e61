"""
The lifecycle of a scheduler: its name, and the rules of start and stop.

    call                          before start    started             stopping             stopped
    start                         starts          does nothing        raises ClosedError   raises ClosedError
    stop                          closes          stops               waits for the stop   returns []
    stop, inside a handler        -               stops in a thread   returns []           -
    stop again, after Ctrl-C      -               -                   continues the stop   -

A stop inside a handler returns [] at once, and a new thread stops the scheduler. A stop that waits for another stop
also returns []. A failed start changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime

__all__ = ["Lifecycle", "one_life"]

_BYTES: Final = 4
"""Length of the random suffix: it distinguishes starts with the same host and process id, and can be read aloud."""

_T = TypeVar("_T")


def one_life(name: str, token: Callable[[int], str]) -> str:
    """
    Append a random suffix to *name*, so that each start has a name of its own.

    Host and process id are not unique. If a scheduler had the name of an earlier one, it would treat the earlier one's
    running jobs as its own, and never recover them. The suffix comes from the system's random generator.
    """
    return f"{name}:{token(_BYTES)}"


class Lifecycle:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.call_lock()  # held while a store is opened
        self._is_stopping = self._is_called = False
        self._stopped = runtime.gate()
        self.is_started = False

    def __str__(self) -> str:
        return "stopped" if self._is_stopping else "started" if self.is_started else "not started"

    @property
    def is_open(self) -> bool:
        return not self._is_stopping

    def start(self, start: Callable[[], object]) -> None:
        with self._lock:
            if self._is_stopping:
                raise ClosedError("scheduler")
            if not self.is_started:
                start()
                self.is_started = True

    def stop(self, stop: Callable[[], list[_T]], timeout: float | None, *, is_inside: bool) -> list[_T]:
        """
        Call *stop* unless an earlier call has completed. *stop* enforces its own timeout.

        If another thread is already stopping, wait up to *timeout*, unless the caller is a handler (*is_inside*).
        """
        is_first = False
        try:
            with self._lock:
                is_first, self._is_called, self._is_stopping = not self._is_called, True, True
            if is_first and not is_inside:
                return self._call(stop)
            if is_first:
                self._runtime.thread(target=self._call, args=(stop,), name="tickwheel-stop").start()
            elif not is_inside:
                self._stopped.wait(timeout)
        except BaseException:  # Ctrl-C, or no thread available: the next call continues
            if is_first:
                self._is_called, self._is_stopping = False, not self.is_started
            raise
        return []

    def _call(self, stop: Callable[[], list[_T]]) -> list[_T]:
        try:
            return stop()
        finally:
            self.is_started = False
            self._stopped.open()
