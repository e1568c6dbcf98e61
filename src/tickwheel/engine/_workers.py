"""
The worker threads of sync handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tickwheel.engine._queue import Queue
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._starter import Starter
from tickwheel.host.runtime import Runtime

if TYPE_CHECKING:
    import threading

__all__ = ["Workers"]


class Workers:
    """
    Daemon threads that run the entries of a queue, at most one per place, started on demand.

    Waking a thread costs more than a short handler takes. So a batch wakes one worker, and a worker that takes an entry
    while others wait wakes the next, unless one is on its way already: few threads run short handlers, and a slow
    handler delays no other. No more entries are begun than `running_max`, which bounds the queue.
    """

    def __init__(self, run: Callable[[StagedJob], object], queue: Queue, runtime: Runtime, starter: Starter) -> None:
        self._run = run
        self.queue = queue
        self._runtime = runtime
        self._starter = starter
        self._lock = runtime.lock()
        self._wanted = runtime.semaphore(0)
        self._idle = 0
        self._count = 0
        self._is_waking = False
        self._is_closed = False
        self._threads: dict[threading.Thread, None] = {}  # in the order of their starts, as they are joined

    def put(self, entries: Sequence[StagedJob]) -> None:
        self.queue.put(entries)
        self._wake_one()

    def lend(self) -> None:
        if self.queue.lend():
            self._wake_one()

    def leak(self, entry: StagedJob) -> None:
        """
        Let another thread run in place of the one that *entry* occupies past its timeout.
        """
        if self.queue.leak(entry):
            self._wake_one()

    def close(self, timeout_s: float | None) -> None:
        deadline = None if timeout_s is None else self._runtime.monotonic() + timeout_s
        with self._lock:
            self._is_closed = True
            self._wanted.release(self._count or 1)
            inside = self._runtime.current_thread()
            threads = [each for each in self._threads if each is not inside]
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - self._runtime.monotonic()))

    def runs_caller(self) -> bool:
        return self._runtime.current_thread() in self._threads

    def _wake_one(self) -> None:
        with self._lock:
            if self._is_waking or self._is_closed:
                return
            if self._idle:
                self._idle -= 1
                self._is_waking = True
                self._wanted.release()
            elif self._count < self.queue.places:
                name = f"tickwheel-worker-{self._count + 1}"
                thread = self._runtime.thread(target=self._work, name=name, daemon=True)
                self._count += 1
                self._is_waking = True
                self._threads[thread] = None
                if not self._starter.start(thread.start, self._wake_one):
                    self._count -= 1
                    self._is_waking = False
                    self._threads.pop(thread, None)

    def _work(self) -> None:
        queue, run = self.queue, self._run
        self._is_waking = False
        entry: StagedJob | None = None
        try:
            while True:
                entry = queue.take(entry)
                if entry is None:
                    if not self._wait():
                        return
                    continue
                # Without the lock: who is about to rest has looked before, and what was put since wakes one that rests.
                if not self._is_waking and (self._idle or self._count < queue.places) and queue.has_next:
                    self._wake_one()
                run(entry)
        finally:
            self._threads.pop(self._runtime.current_thread(), None)

    def _wait(self) -> bool:
        with self._lock:
            if self.queue.has_next:
                return True
            if self._is_closed or self._count > self.queue.places:
                self._count -= 1
                return False
            self._idle += 1
        self._wanted.acquire()
        self._is_waking = False
        return True
