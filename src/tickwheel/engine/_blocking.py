"""
Reports async handlers that block the event loop.

Each step of a handler, from one await to the next, is timed. A timer in another thread, which runs once a second while
there are tasks, finds steps that do not end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from tickwheel.drivers import TimerWheel
from tickwheel.engine._staged_job import StagedJob
from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime

__all__ = ["Blocking"]

_LONG_S: Final = 1.0
"""Seconds that a step may take, since it holds up everything else on the loop."""
_NAMED_MAX: Final = 1_000
"""Maximum number of handlers that are remembered: the number of names in jobs has no bound."""

_log = logging.getLogger("tickwheel.scheduler")


class Blocking:
    """
    Logs a warning, once for each handler, when one of its steps takes more than a second.
    """

    def __init__(self, pacer: TimerWheel, runtime: Runtime) -> None:
        self._pacer = pacer
        self._monotonic = runtime.monotonic
        self._lock = runtime.lock()
        self._step: tuple[StagedJob, float] | None = None
        self._tasks = 0
        self._is_watching = False
        self._named: set[tuple[str, str]] = set()

    def watched(self, entry: StagedJob, coroutine: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
        """
        Return *coroutine* with its steps timed; called on the loop, before the task of *entry* starts.
        """
        self._tasks += 1
        if not self._is_watching:
            self._watch()
        return _Watched(self, entry, coroutine)

    def ended(self) -> None:
        self._tasks -= 1

    def step(self, entry: StagedJob, step: Callable[..., Any], *arguments: Any) -> Any:
        outer, begun_at = self._step, self._monotonic()
        self._step = entry, begun_at
        try:
            return step(*arguments)
        finally:
            self._step = outer
            took_s = self._monotonic() - begun_at
            if took_s > _LONG_S:
                self._name(entry, took_s)

    def _watch(self) -> None:
        with self._lock, suppress(ClosedError):
            if not self._is_watching:
                self._pacer.call_later(_LONG_S, self._look)
                self._is_watching = True

    def _look(self) -> None:
        step = self._step
        if step is not None and (took_s := self._monotonic() - step[1]) > _LONG_S:
            self._name(step[0], took_s)
        with self._lock:
            self._is_watching = False
        if self._tasks:
            self._watch()

    def _name(self, entry: StagedJob, took_s: float) -> None:
        job = entry.job
        name = (job.target, job.handler)
        if name not in self._named and len(self._named) < _NAMED_MAX:
            self._named.add(name)
            _log.warning(
                "the async handler %r has blocked the event loop for %.1f s, in job %r: make it a `def`, which runs in "
                "a thread, or put what blocks in `await asyncio.to_thread(...)`",
                job.handler,
                took_s,
                job.key,
            )


class _Watched(Coroutine[Any, Any, None]):
    __slots__ = ("_blocking", "_coroutine", "_entry")

    def __init__(self, blocking: Blocking, entry: StagedJob, coroutine: Coroutine[Any, Any, None]) -> None:
        self._blocking = blocking
        self._entry = entry
        self._coroutine = coroutine

    def __await__(self) -> Any:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._blocking.step(self._entry, self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._blocking.step(self._entry, self._coroutine.throw, *error)

    def close(self) -> None:
        self._coroutine.close()
