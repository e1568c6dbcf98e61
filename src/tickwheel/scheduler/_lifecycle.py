"""
The rules of start and stop, once.

    call                          before start    started           stopping           stopped
    start                         starts          does nothing      ClosedError        ClosedError
    stop                          closes          stops             waits for it, []   []
    stop, inside a handler        -               begins to, []     []                 -

A start that fails leaves everything as before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tickwheel.errors import ClosedError
from tickwheel.scheduler._runtime import Runtime

__all__ = ["Lifecycle"]

_T = TypeVar("_T")


class Lifecycle:
    """
    Lets one caller start and one stop.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._is_stopping = False
        self._stopped = runtime.event()
        self.is_started = False

    def __str__(self) -> str:
        return "stopped" if self._is_stopping else "started" if self.is_started else "not started"

    @property
    def is_open(self) -> bool:
        """
        True until somebody begins to stop.
        """
        return not self._is_stopping

    def start(self, start: Callable[[], object]) -> None:
        """
        Call *start* unless that was done.

        Raises:
            ClosedError: After a stop.
        """
        with self._lock:
            if self._is_stopping:
                raise ClosedError("scheduler")
            if not self.is_started:
                start()
                self.is_started = True

    def stop(self, stop: Callable[[], list[_T]], timeout: float | None, *, is_inside: bool) -> list[_T]:
        """
        Call *stop* unless that was done, and return its result.

        Args:
            stop: What stops; it keeps to its time itself.
            timeout: How long to wait for another call that is stopping.
            is_inside: Whether the caller is something that *stop* waits for; then it is not waited for.
        """
        with self._lock:
            is_first, self._is_stopping = not self._is_stopping, True
        if not is_first:
            if not is_inside:
                self._stopped.wait(timeout)
            return []
        if is_inside:
            try:
                self._runtime.thread(target=self._call, args=(stop,), name="tickwheel-stop").start()
            except RuntimeError:  # the system has no thread to spare: the caller may try again
                self._is_stopping = False
                raise
            return []
        return self._call(stop)

    def _call(self, stop: Callable[[], list[_T]]) -> list[_T]:
        try:
            return stop()
        finally:
            self.is_started = False
            self._stopped.set()
