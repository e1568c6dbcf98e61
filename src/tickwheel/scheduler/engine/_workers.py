"""
The worker threads of sync handlers.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tickwheel.scheduler.engine._entry import Entry

__all__ = ["Workers"]


class Workers:
    """
    Up to *size* daemon threads that run entries, started when there is something to run.

    Waking a thread costs more than a short handler takes. So a batch wakes one worker, and whoever takes an entry while
    others wait wakes the next, unless one is on its way already: short handlers are run by few, and a slow one delays
    nobody. The queue is bounded by whoever fills it: no more entries are begun than `running_max`.
    """

    def __init__(self, run: Callable[[Entry], object], size: int) -> None:
        self._run = run
        self._size = size
        self._queue: deque[Entry] = deque()
        self._lock = threading.Lock()
        self._wanted = threading.Semaphore(0)
        self._idle = 0
        self._count = 0
        self._is_waking = False
        self._is_closed = False
        self._threads: set[threading.Thread] = set()

    def put(self, entries: Sequence[Entry]) -> None:
        """
        Queue *entries*, to be begun in this order.
        """
        self._queue.extend(entries)
        self._wake_one()

    def take_back(self) -> list[Entry]:
        """
        Take out what no worker has begun.
        """
        taken: list[Entry] = []
        while self._queue:
            try:
                taken.append(self._queue.popleft())
            except IndexError:  # a worker was faster
                break
        return taken

    @property
    def waiting(self) -> int:
        """
        How many entries are queued.
        """
        return len(self._queue)

    def add_one(self) -> None:
        """
        Allow one more thread, in place of one that a handler past its timeout holds.
        """
        with self._lock:
            self._size += 1
        self._wake_one()

    def remove_one(self) -> None:
        """
        Allow one fewer: the handler has come back.
        """
        with self._lock:
            self._size -= 1

    def close(self, timeout_s: float | None) -> None:
        """
        Let the threads end once the queue is empty, and wait for them.
        """
        with self._lock:
            self._is_closed = True
            self._wanted.release(self._count or 1)
            threads = [each for each in self._threads if each is not threading.current_thread()]
        for thread in threads:
            thread.join(timeout_s)

    def holds(self, thread: threading.Thread) -> bool:
        """
        Return whether *thread* is one of the workers.
        """
        return thread in self._threads

    def _wake_one(self) -> None:
        with self._lock:
            if self._is_waking or self._is_closed:
                return
            if self._idle:
                self._idle -= 1
                self._is_waking = True
                self._wanted.release()
            elif self._count < self._size:
                self._count += 1
                self._is_waking = True
                thread = threading.Thread(target=self._work, name=f"tickwheel-worker-{self._count}", daemon=True)
                self._threads.add(thread)
                thread.start()

    def _work(self) -> None:
        queue, run = self._queue, self._run
        self._is_waking = False
        try:
            while True:
                try:
                    entry = queue.popleft()
                except IndexError:
                    if not self._wait():
                        return
                    continue
                if queue and not self._is_waking and (self._idle or self._count < self._size):
                    self._wake_one()
                run(entry)
        finally:
            self._threads.discard(threading.current_thread())

    def _wait(self) -> bool:
        """
        Wait to be woken; False if this thread is to end.
        """
        with self._lock:
            if self._queue:
                return True
            if self._is_closed or self._count > self._size:
                self._count -= 1
                return False
            self._idle += 1
        self._wanted.acquire()
        self._is_waking = False
        return True
