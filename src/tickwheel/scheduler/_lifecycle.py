"""
The rules of start and stop, once.

    call                          before start    started           stopping           stopped
    start                         starts          does nothing      ClosedError        ClosedError
    stop                          closes          stops             waits for it, []   []
    stop, after Ctrl-C in one     -               -                 goes on            -
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
        self._is_stopping = self._is_called = False
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
        Call *stop* unless that was done to its end, and return its result.

        Args:
            stop: What stops; it keeps to its time itself.
            timeout: How long to wait for another call that is stopping.
            is_inside: Whether the caller is something that *stop* waits for; then it is not waited for.
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
        except BaseException:  # Ctrl-C, or the system has no thread to spare: the next call goes on
            if is_first:
                self._is_called, self._is_stopping = False, not self.is_started
            raise
        return []

    def _call(self, stop: Callable[[], list[_T]]) -> list[_T]:
        try:
            return stop()
        finally:
            self.is_started = False
            self._stopped.set()
