"""
Internal: futures for results of system threads. A greenlet that waits for such a future lets other greenlets run.
"""

from __future__ import annotations

from concurrent import futures
from typing import Any, TypeVar

from tickwheel.threads import Condition, Gate, is_patched

__all__ = ["Future", "wait_for"]

R = TypeVar("R")


class Future(futures.Future[R]):
    def __init__(self) -> None:
        super().__init__()
        if is_patched():
            self._condition = Condition()  # not gevent's condition, which misses releases by other threads

    def result(self, timeout: float | None = None) -> R:
        return super().result(self._let_others_run(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return super().exception(self._let_others_run(timeout))

    def _let_others_run(self, timeout: float | None) -> float | None:
        """
        If gevent is in use, wait in a way that lets greenlets run, and return 0. Otherwise, return *timeout*.
        """
        if not is_patched():
            return timeout
        wait_for(self, timeout)
        return 0


def wait_for(future: futures.Future[Any], timeout: float | None = None) -> bool:
    gate = Gate()
    future.add_done_callback(lambda _: gate.open())
    return gate.wait(timeout)
