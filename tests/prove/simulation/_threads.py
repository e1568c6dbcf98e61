"""
The simulation's replacement for the module `threading`.

Each class behaves like its original, but has tasks in place of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from simulation._interleaver import Interleaver, Task, TaskKilledError, current
from tickwheel.clock import to_delay

__all__ = ["Condition", "Event", "Gate", "Lock", "Thread", "current_thread", "forget_threads", "monotonic"]


def interleaver() -> Interleaver:
    """
    Return the interleaver of the calling task.
    """
    found = current()
    assert found is not None, "a simulated lock was used outside of the simulation"
    return found


def span_ns(interleaver: Interleaver, timeout: float | None) -> int | None:
    """
    Convert *timeout* from the clock of the calling task's machine to true time.
    """
    if timeout is None:
        return None
    span = to_delay(timeout)
    machine = interleaver.current.machine
    return span if machine is None else machine.span_ns(span)


class Lock:
    """
    A lock that passes to the task which has waited longest.
    """

    is_reentrant = False

    def __init__(self) -> None:
        self._holder: Task | None = None
        self._depth = 0
        self._waiters: deque[Task] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 as a lock has it
        run = interleaver()
        run.preempt()
        task = run.current
        if self._holder is task and self.is_reentrant:
            self._depth += 1
            return True
        while self._holder is not None:
            if not blocking:
                return False
            self._waiters.append(task)
            try:
                run.wait(None if timeout < 0 else span_ns(run, timeout))
            except TaskKilledError:
                self._wake_next(run)
                raise
            finally:
                if task in self._waiters:
                    self._waiters.remove(task)
            if timeout >= 0 and self._holder is not None:
                return False
        self._holder, self._depth = task, 1
        return True

    def release(self) -> None:
        """
        Release the lock, without blocking.
        """
        self._depth -= 1
        if self._depth == 0:
            self._holder = None
            self._wake_next(interleaver())

    def locked(self) -> bool:
        return self._holder is not None

    def _wake_next(self, run: Interleaver) -> None:
        if self._waiters and self._holder is None:
            run.wake(self._waiters.popleft())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """
    A lock that its holder may acquire again.
    """

    is_reentrant = True


class Condition:
    """
    A condition variable with a lock.
    """

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiters: deque[Task] = deque()
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        run = interleaver()
        task = run.current
        self._waiters.append(task)
        depth, self._lock._depth = self._lock._depth, 1
        self._lock.release()
        try:
            run.wait(span_ns(run, timeout))
        finally:
            is_notified = task not in self._waiters
            if not is_notified:
                self._waiters.remove(task)
            self._take_back(run, depth)
        return is_notified

    def _take_back(self, run: Interleaver, depth: int) -> None:
        if run.current.is_killed:  # otherwise the task's `with` would release a lock that it no longer holds
            self._lock._depth += 1
            return
        self._lock.acquire()
        self._lock._depth = depth

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """
        Wait until *predicate* holds.
        """
        run = interleaver()
        end = None if timeout is None else run.now_ns + to_delay(timeout)
        while not (result := predicate()):
            if end is not None and run.now_ns >= end:
                break
            self.wait(None if end is None else (end - run.now_ns) / 1e9)
        return result

    def notify(self, n: int = 1) -> None:
        """
        Wake up to *n* waiting tasks.
        """
        run = interleaver()
        run.check()
        for _ in range(min(n, len(self._waiters))):
            run.wake(self._waiters.popleft())

    def notify_all(self) -> None:
        """
        Wake all waiting tasks.
        """
        self.notify(len(self._waiters))


class Event:
    """
    A flag for which tasks can wait.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        run = interleaver()
        run.check()
        self._is_set = True
        for task in self._waiters:
            run.wake(task)
        self._waiters.clear()

    def clear(self) -> None:
        interleaver().check()
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        run = interleaver()
        run.preempt()
        if not self._is_set:
            task = run.current
            self._waiters.append(task)
            try:
                run.wait(span_ns(run, timeout))
            finally:
                if task in self._waiters:
                    self._waiters.remove(task)
        return self._is_set


class Gate(Event):
    """
    An event that is set at most once.
    """

    is_open = Event.is_set
    open = Event.set


class Thread:
    """
    A task with the interface of a thread.
    """

    def __init__(
        self,
        target: Callable[..., object] | None = None,
        name: str = "thread",
        args: Iterable[Any] = (),
        daemon: bool | None = None,  # noqa: FBT001 as a thread has it
    ) -> None:
        self.name = name
        self.daemon = daemon
        self._target = target
        self._args = tuple(args)
        self._task: Task | None = None

    @property
    def ident(self) -> int | None:
        return None if self._task is None else id(self._task)

    def start(self) -> None:
        run = interleaver()
        run.check()
        target = self._target
        assert target is not None

        def call() -> None:
            _threads[run.current] = self
            target(*self._args)

        self._task = run.spawn(self.name, call, run.current.machine)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    def join(self, timeout: float | None = None) -> None:
        """
        Wait until the task has ended.
        """
        run = interleaver()
        run.check()
        if self._task is not None and not self._task.is_done:
            self._task.joiners.append(run.current)
            run.wait(span_ns(run, timeout))


_threads: dict[Task, Thread] = {}
"""
The thread objects of the running tasks. Each simulation clears this at its end.
"""


def current_thread() -> Any:
    """
    Return the thread of the calling task.
    """
    task = interleaver().current
    found = _threads.get(task)
    if found is None:
        found = _threads[task] = Thread(name=task.name)
    return found


def forget_threads() -> None:
    """
    Release all threads at the end of a simulation.
    """
    _threads.clear()


def monotonic() -> float:
    """
    Return the monotonic clock of the calling task's machine.
    """
    run = interleaver()
    machine = run.current.machine
    return (run.now_ns if machine is None else machine.monotonic_ns()) / 1e9
