from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tickwheel.clock import to_seconds
from tickwheel.timers.contract import DueTimer, Engine
from tickwheel.timers.log import logger
from tickwheel.typing import NonCopyable, Seconds

__all__ = ["Executor", "InlineExecutor", "MeasuredExecutor", "SlowHandler"]

SlowHandler: TypeAlias = Callable[[DueTimer, float], object]
"""Receives a timer whose callback was slow, and the seconds that it took."""


class Executor(Protocol):
    """
    The protocol of executors. An executor runs the callbacks of wheels.
    """

    def serve(self, engine: Engine) -> None:
        """
        Start to run the callbacks of *engine*.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return counters, whose names begin with `executor_`.
        """


class MeasuredExecutor(NonCopyable):
    """
    Runs timers in the calling thread, and reports slow callbacks.
    """

    def __init__(self, slow_s: Seconds | None, on_slow: SlowHandler | None) -> None:
        self._slow_s = None if slow_s is None else to_seconds(slow_s, "slow_s")
        self._on_slow = _log_slow if on_slow is None else on_slow
        self._ran = 0
        self._slow = 0

    def __repr__(self) -> str:
        figures = " ".join(f"{name.removeprefix('executor_')}={count}" for name, count in self.stats().items())
        return f"<{type(self).__name__} {figures}>"

    def serve(self, engine: Engine) -> None:
        engine.runner = self.submit

    def submit(self, timer: DueTimer) -> None:
        """
        Run a due timer in the calling thread; subclasses may queue it. The engine calls this method as its `runner`.
        """
        self.run(timer)

    def run(self, timer: DueTimer) -> Any:
        """
        Run a timer in this thread, and return the result of its callback.
        """
        begun = time.monotonic()
        try:
            return timer.run()
        finally:
            self._ran += 1
            took_s = time.monotonic() - begun
            if self._slow_s is not None and took_s > self._slow_s:
                self._slow += 1
                self._on_slow(timer, took_s)

    def stats(self) -> dict[str, Any]:
        return {"executor_ran": self._ran, "executor_slow": self._slow}


class InlineExecutor(MeasuredExecutor):
    """
    Runs callbacks in the driver's thread, like a wheel without an executor, and reports slow callbacks.

    Args:
        slow_s: Seconds. A callback that takes longer is reported.
        on_slow: Called with each report; None for a warning in the logger `tickwheel`.
    """

    def __init__(self, slow_s: Seconds, on_slow: SlowHandler | None = None) -> None:
        super().__init__(slow_s, on_slow)


def _log_slow(timer: DueTimer, took_s: float) -> None:
    logger().warning("a callback took %.3f s: %r", took_s, timer)
