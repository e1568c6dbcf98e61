from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from contextvars import Context
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

from tickwheel.clock import to_timeout
from tickwheel.drivers._measured import MeasuredExecutor, SlowHandler
from tickwheel.drivers.fork import call_after_fork
from tickwheel.errors import ClosedError, ExecutorFullError
from tickwheel.threads import Condition, RLock, Thread, current_thread
from tickwheel.timers.contract import DueTimer
from tickwheel.typing import Seconds
from tickwheel.wheels.contract import checked_count

__all__ = ["PoolExecutor", "WhenFull"]

WhenFull: TypeAlias = Literal["block", "reject", "run"]
"""Policy for a callback when the queue is full."""


class _Queue:
    """
    The queue of waiting callbacks. Workers hold the queue but not the pool, so an unreferenced pool can be collected.
    """

    def __init__(self, size_max: int) -> None:
        lock = RLock()
        self.lock = lock
        self.has_more = Condition(lock)
        self.has_room = Condition(lock)
        self.size_max = size_max
        self.waiting: deque[DueTimer] = deque()
        self.idle = 0
        self.is_closed = False
        self.is_forked = False
        call_after_fork(self)

    def is_full(self) -> bool:
        return len(self.waiting) >= self.size_max

    def put(self, timer: DueTimer) -> None:
        self.waiting.append(timer)
        self.has_more.notify()

    def take(self) -> DueTimer | None:
        if self.is_forked:
            return None
        with self.lock:
            self.idle += 1
            while not self.waiting and not self.is_closed:
                self.has_more.wait()
            self.idle -= 1
            self.has_room.notify()
            return self.waiting.popleft() if self.waiting else None

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            self.has_more.notify_all()
            self.has_room.notify_all()

    def after_fork(self) -> None:
        # without the lock, which another thread may have held at the fork; waiting callbacks run in the parent
        self.is_forked = True
        self.waiting.clear()


class PoolExecutor(MeasuredExecutor):
    """
    Runs callbacks in worker threads, so that a slow callback delays neither the driver nor other callbacks.

    Callbacks start in the order in which they became due, and may end in any order. Workers start on demand. If a
    callback raises an exception that is not an `Exception`, `threading.excepthook` receives it, and the worker
    continues. All methods may be called from any thread.

    Args:
        workers: Maximum number of threads.
        queue_max: Maximum number of callbacks that wait for a worker.
        when_full: Policy for a callback when the queue is full. "block": the driver waits until there is room.
            "reject": the callback is not called, and `on_error` receives an ExecutorFullError; a series continues, and
            a `with_timeout` context still ends at its deadline. "run": the callback is called in the driver's thread.
        slow_s: Seconds. A callback that takes longer is reported; None for no report.
        on_slow: Called with each report, in the worker's thread; None for a warning in the logger `tickwheel`.
        name: Prefix of the threads' names.
        context: The `contextvars.Context` for callbacks that were set without one; each callback runs in a copy. None
            for the worker's context.

    Raises:
        ValueError: If *workers* or *queue_max* is below 1, or *when_full* is not one of the three policies.
    """

    def __init__(
        self,
        workers: int = 4,
        *,
        queue_max: int = 1024,
        when_full: WhenFull = "block",
        slow_s: Seconds | None = None,
        on_slow: SlowHandler | None = None,
        name: str = "tickwheel-worker",
        context: Context | None = None,
    ) -> None:
        super().__init__(slow_s, on_slow)
        for option, value in (("workers", workers), ("queue_max", queue_max)):
            checked_count(value, option, 1)
        if when_full not in get_args(WhenFull):
            message = f"when_full is {when_full!r}: pass one of {', '.join(map(repr, get_args(WhenFull)))}"
            raise ValueError(message)
        if context is not None and not isinstance(context, Context):
            message = f"context is {context!r}: pass a contextvars.Context, or None"
            raise TypeError(message)
        self._context = context
        self._workers = workers
        self._when_full = when_full
        self._name = name
        self._queue = _Queue(queue_max)
        self._threads: list[Thread] = []
        self._rejected = 0
        call_after_fork(self)

    def __del__(self) -> None:
        if hasattr(self, "_queue"):  # otherwise `__init__` has failed
            self._queue.close()

    def submit(self, timer: DueTimer) -> None:
        """
        Queue a due timer, or apply the policy for a full queue.

        Raises:
            ExecutorFullError: If the queue is full and the policy is to reject.
            ClosedError: After `close`.
        """
        queue = self._queue
        with queue.lock:
            while self._when_full == "block" and queue.is_full() and not queue.is_closed:
                queue.has_room.wait()
            if queue.is_closed:
                raise ClosedError("executor")
            if not queue.is_full():
                self._see_to_a_worker()
                queue.put(timer)
                return
            if self._when_full == "reject":
                self._rejected += 1
                raise ExecutorFullError(queue.size_max)
        self.run(timer)

    def run(self, timer: DueTimer) -> Any:
        if self._context is None:
            return super().run(timer)
        return self._context.copy().run(super().run, timer)

    def _see_to_a_worker(self) -> None:
        if self._queue.idle > len(self._queue.waiting) or len(self._threads) >= self._workers:
            return
        name = f"{self._name}-{len(self._threads)}"
        thread = Thread(target=_work, args=(self._queue, weakref.ref(self)), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is available: the existing workers continue
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def close(self) -> None:
        """
        Refuse further callbacks. The queued callbacks are called, then the workers end. A second call does nothing.
        """
        self._queue.close()

    def join(self, timeout: Seconds | None = None) -> bool:
        """
        Wait until the closed pool has called all queued callbacks, at most *timeout* seconds. Return True if it has.
        """
        wait_s = to_timeout(timeout)
        deadline = None if wait_s is None else time.monotonic() + wait_s
        for thread in list(self._threads):
            if thread is current_thread():
                return False
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        self.join()

    def after_fork(self) -> None:
        """
        Start again in the child of a fork, without threads and without queued callbacks.

        If a callback of this pool forked, its worker continues in the child until that callback ends.
        """
        queue = _Queue(self._queue.size_max)
        queue.is_closed = self._queue.is_closed
        self._queue = queue
        self._threads = []

    def stats(self) -> dict[str, Any]:
        return {
            **super().stats(),
            "executor_rejected": self._rejected,
            "executor_waiting": len(self._queue.waiting),
            "executor_workers": len(self._threads),
        }


def _work(queue: _Queue, pool_reference: weakref.ref[PoolExecutor]) -> None:
    while (timer := queue.take()) is not None:
        pool = pool_reference()
        try:
            if pool is None:
                timer.run()
            else:
                pool.run(timer)
        except BaseException:  # noqa: BLE001  reported as in any thread, but the worker continues
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), current_thread())))
        del pool, timer  # a waiting worker must not keep them alive
