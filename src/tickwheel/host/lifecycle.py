"""
The life of a scheduler: its name, and the rules of start and stop, once.

    call                          before start    started           stopping           stopped
    start                         starts          does nothing      ClosedError        ClosedError
    stop                          closes          stops             waits for it, []   []
    stop, after Ctrl-C in one     -               -                 goes on            -
    stop, inside a handler        -               begins to, []     []                 -

A start that fails leaves everything as before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime

__all__ = ["Lifecycle", "one_life"]

_BYTES: Final = 4
"""Enough that no two lives of one host and process id meet within a lease, and few enough to be read out."""

_T = TypeVar("_T")


def one_life(name: str, token: Callable[[int], str]) -> str:
    """
    Return *name* with a random end, which no other life of the same name has.

    Host and process id alone do not say who somebody is: a container that is restarted in place has the same ones, and
    two schedulers of one process share them. A scheduler that took a lease under the name of its former life would take
    the jobs that were running for its own, and rescue none. The end comes from the system, never from a generator that
    a program may seed.
    """
    return f"{name}:{token(_BYTES)}"


class Lifecycle:
    """
    Lets one caller start and one stop.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.call_lock()  # it is held while a store is opened
        self._is_stopping = self._is_called = False
        self._stopped = runtime.gate()
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
            self._stopped.open()
