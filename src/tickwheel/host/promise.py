"""
The promise of a write's answer.

`concurrent.futures.Future` does the same for more: a condition of its own, locked at each step, and states that a write
does not have. Over HTTP that was a tenth of what setting a job costs.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

from tickwheel.host.runtime import Runtime
from tickwheel.timers.error_copies import copy_error

__all__ = ["Promise", "Reply"]

_T = TypeVar("_T")


class Promise(Generic[_T]):
    """
    Kept once, by one thread; any others wait for it or are called. It cannot be cancelled: a queued write is not.
    """

    __slots__ = ("_callbacks", "_error", "_is_kept", "_runtime", "_traceback", "_value")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._callbacks: list[Callable[[Promise[_T]], object]] = []
        self._value: _T
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._is_kept = False

    def set_result(self, value: _T) -> None:
        """
        Keep it.
        """
        self._value = value
        self._keep()

    def set_exception(self, error: BaseException) -> None:
        """
        Keep it with an *error*, which other promises may be kept with, too.
        """
        self._traceback = error.__traceback__
        self._error = error
        self._keep()

    def done(self) -> bool:
        """
        Return whether it is kept.
        """
        return self._is_kept

    def result(self, timeout: float | None = None) -> _T:
        """
        Wait for the value, and return it or raise the error.

        Args:
            timeout: How many seconds to wait; None for as long as it takes.

        Raises:
            TimeoutError: If it was not kept in time.
        """
        error = self.exception(timeout)
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame, and would keep both

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """
        Wait, and return the error, of which each call gets a copy of its own, or None; otherwise as `result`.
        """
        if not self._is_kept:
            gate = self._runtime.gate()
            self.add_done_callback(lambda _promise: gate.open())
            if not gate.wait(timeout):
                message = f"there was no answer within {timeout:g} s"
                raise TimeoutError(message)
        return None if self._error is None else copy_error(self._error, self._traceback)

    def add_done_callback(self, callback: Callable[[Promise[_T]], object]) -> None:
        """
        Call *callback* with this promise when it is kept, on the thread that keeps it; at once if it is.
        """
        self._callbacks.append(callback)
        if self._is_kept:
            self._call()

    def _keep(self) -> None:
        self._is_kept = True  # before it looks: a callback that comes from here on is called by who brings it
        self._call()

    def _call(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # two threads look: each callback is taken by one of them
                return
            callback(self)


Reply: TypeAlias = Future[_T] | Promise[_T]
"""What gets an answer, here or over HTTP."""
