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
    A future for a write's answer, which one thread sets. Neither the promise nor a queued write can be cancelled.

    A promise costs less than a `concurrent.futures.Future`, which locks a condition at each step.
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
        self._value = value
        self._is_kept = True  # set first: from here on, the thread that adds a callback calls it
        if self._callbacks:
            self._call()

    def set_exception(self, error: BaseException) -> None:
        self._traceback = error.__traceback__
        self._error = error
        self._is_kept = True
        self._call()

    def done(self) -> bool:
        return self._is_kept

    def result(self, timeout: float | None = None) -> _T:
        error = self.exception(timeout)
        if error is None:
            return self._value
        try:
            raise error
        finally:
            del error  # the error's traceback holds this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._is_kept:
            gate = self._runtime.gate()
            self.add_done_callback(lambda _promise: gate.open())
            if not gate.wait(timeout):
                message = f"there was no answer within {timeout:g} s"
                raise TimeoutError(message)
        return None if self._error is None else copy_error(self._error, self._traceback)

    def add_done_callback(self, callback: Callable[[Promise[_T]], object]) -> None:
        """
        Call *callback* with this promise: at once if the promise is complete; if not, on the thread that completes it.
        """
        self._callbacks.append(callback)
        if self._is_kept:
            self._call()

    def _call(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:  # two threads may loop here: each callback is taken by one of them
                return
            callback(self)


Reply: TypeAlias = Future[_T] | Promise[_T]
"""A future for an answer, from this process or over HTTP."""
