"""
The event loop of async handlers and of targets that use the network, with a check for handlers that block the loop.

Each step of a handler, from one await to the next, is timed. A timer in another thread, which runs once a second while
there are tasks, finds steps that do not end.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tickwheel.drivers import TimerWheel
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._workers import WorkQueue
from tickwheel.engine.resources import ThreadStarter
from tickwheel.errors import ClosedError
from tickwheel.host.runtime import Runtime
from tickwheel.loops import new_event_loop, run_coroutine_threadsafe

if TYPE_CHECKING:
    import threading

__all__ = ["Blocking", "Coroutines"]

_LONG_S: Final = 1.0
"""Seconds that a step may take before it is logged, because the step blocks all other tasks on the loop."""
_NAMED_MAX: Final = 1_000
"""Maximum number of handlers for which a warning is remembered."""

_log = logging.getLogger("tickwheel.scheduler")


class Blocking:
    """
    Logs a warning, once for each handler, when a step of the handler takes more than a second.
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


_AT_ONCE: Final = 64
"""Maximum number of tasks started in one iteration of the loop, so that a burst does not block other tasks."""

_REST_S: Final = 1.0
"""Maximum wait, in seconds, for cancelled tasks that handlers or libraries have left on the loop."""


class Coroutines:
    """
    Runs the entries of a queue as tasks. If *loop* is None, they run on a loop in a daemon thread.
    """

    def __init__(
        self,
        run: Callable[[StagedJob], Coroutine[Any, Any, None]],
        queue: WorkQueue,
        loop: asyncio.AbstractEventLoop | None,
        runtime: Runtime,
        starter: ThreadStarter,
        *,
        blocking: Blocking,
    ) -> None:
        self._run = run
        self._blocking = blocking
        self.queue = queue
        self._loop = loop
        self._thread: threading.Thread | None = None
        self._runtime = runtime
        self._starter = starter
        self._lock = runtime.lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: deque[StagedJob] = deque()
        self._is_starting = self._is_lost = False

    def put(self, entries: Sequence[StagedJob]) -> None:
        self.queue.put(entries)
        self._look()

    def lend(self) -> None:
        if self.queue.lend():
            self._look()

    def leak(self, entry: StagedJob) -> None:
        """
        Start another task, because the task of *entry* continues after its timeout. Callable from any thread.
        """
        if self.queue.leak(entry):
            self._look()

    def runs_caller(self) -> bool:
        if self._runtime.current_thread() is self._thread:
            return True
        try:
            return asyncio.current_task() in self._tasks
        except RuntimeError:  # no loop runs here
            return False

    def close(self, timeout_s: float | None, closers: Sequence[Callable[[], Awaitable[None]]]) -> None:
        loop = self._loop
        if loop is None:  # nothing was ever awaited; the caller's thread may run a loop of its own
            thread = self._runtime.thread(target=_run_alone, args=(_close_all(closers),), name="tickwheel-closing")
            with suppress(RuntimeError):  # no thread is available: the targets' resources end with the process
                thread.start()
                thread.join(timeout_s)
            return
        if loop.is_closed():
            return
        # A task may swallow its cancellation, and the loop may have been closed in the meantime.
        with suppress(TimeoutError, RuntimeError):
            run_coroutine_threadsafe(self._wind_up(closers), loop).result(timeout_s)
        if self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not self._runtime.current_thread():
                self._thread.join(timeout_s)

    def _start_loop(self) -> None:
        loop = new_event_loop()
        thread = self._runtime.thread(target=_run_loop, args=(loop,), name="tickwheel-coroutines", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            loop.close()
            raise
        self._loop, self._thread = loop, thread

    def _look(self) -> None:
        with self._lock:
            if self._loop is None:
                self._starter.start(self._start_loop, self._look)
            loop = self._loop
        if loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._start_some)
        except RuntimeError:  # the loop was closed
            self._lose()

    def _lose(self) -> None:
        if self._thread is None and not self._is_lost:
            self._is_lost = True
            _log.error(
                "the event loop that this scheduler was started on is closed: its async handlers run no more, "
                "and their jobs wait until it is stopped"
            )

    def _start_some(self) -> None:
        loop, queue, ended = asyncio.get_running_loop(), self.queue, self._ended
        self._is_starting = False
        for _ in range(_AT_ONCE):
            entry = queue.take(ended.popleft() if ended else None)
            if entry is not None:
                task = loop.create_task(self._blocking.watched(entry, self._run(entry)))
                self._tasks.add(task)
                task.add_done_callback(partial(self._end, entry))
            elif not ended:
                return
        self._start_soon(loop)

    def _start_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_starting:
            self._is_starting = True
            loop.call_soon(self._start_some)

    def _end(self, entry: StagedJob, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._blocking.ended()
        if not task.cancelled():
            task.exception()  # `run` handles errors of attempts: this is a cancellation or the end of the process
        self._ended.append(entry)
        self._start_soon(task.get_loop())

    async def _wind_up(self, closers: Sequence[Callable[[], Awaitable[None]]]) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close_all(closers)


async def _close_all(closers: Sequence[Callable[[], Awaitable[None]]]) -> None:
    for closer in closers:
        try:
            await closer()
        except Exception:  # noqa: BLE001  the other targets must also be closed
            _log.exception("a target could not be closed")


def _run_alone(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(work)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_end_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_rest() -> None:
    """
    Cancel and await the tasks that handlers and libraries have left on the loop, because a closed loop cannot end them.
    """
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_REST_S)
