"""
The interleaver runs threads one at a time, chosen by a seed.

Every task is a real thread, but only the task that has the baton runs. It passes the baton on where it would block and,
if the seed says so, where a thread could be preempted. Simulated time passes only while all tasks wait. The engine's
real code runs, and two runs of one seed take the same turns.
"""

from __future__ import annotations

import _thread
import heapq
import random
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final, Protocol

__all__ = ["Interleaver", "Machine", "SimulationError", "Task", "TaskKilledError", "current"]

_PREEMPTED: Final = 0.04
"""Probability that a task is preempted when it takes a lock."""

_STACK: Final = 512 * 1024
"""Stack size of each thread in bytes."""

_REAL_PATIENCE_S: Final = 120.0
"""
Maximum number of real seconds for one step. Only a task that really blocks takes so long.
"""


class TaskKilledError(BaseException):
    """
    Raised in the threads of a killed machine, whose actions have no effect from then on.
    """


class SimulationError(RuntimeError):
    """
    The simulation is stuck: every task waits for another task, and none waits for a time.
    """


class Machine(Protocol):
    """
    The machine on which tasks run.

    Attributes:
        is_paused: True while none of the machine's tasks may run.
        is_dead: True if the machine was killed.
    """

    is_paused: bool
    is_dead: bool

    def monotonic_ns(self) -> int:
        """
        Return the machine's monotonic clock.
        """

    def wall_ns(self) -> int:
        """
        Return the machine's time of day.
        """

    def span_ns(self, monotonic_ns: int) -> int:
        """
        Return the true time that passes while the machine's monotonic clock advances by *monotonic_ns*.
        """


class Task:
    """
    One thread of the simulation.
    """

    __slots__ = ("baton", "ident", "is_done", "is_killed", "is_ready", "joiners", "machine", "name", "turn")

    def __init__(self, name: str, machine: Machine | None) -> None:
        self.name = name
        self.machine = machine
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.is_done = False
        self.is_ready = False
        self.is_killed = False
        self.turn = 0
        self.ident = 0
        self.joiners: list[Task] = []


class Interleaver:
    """
    Runs tasks in the order that the seed gives.

    The thread that makes the interleaver is the first task, called the script.
    """

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.now_ns = 0
        self.switches = 0
        self.atomic = 0
        self.failures: list[str] = []
        self._ready: list[Task] = []
        self._timers: list[tuple[int, int, Task, int]] = []
        self._number = 0
        self._waited = 0
        self._tasks: dict[Task, None] = {}
        self.current = self._script = Task("script", None)
        self._script.ident = threading.get_ident()
        _of_thread.interleaver = self

    # ---- what tasks do ---------------------------------------------------------------------------------------------

    def spawn(self, name: str, function: Callable[[], object], machine: Machine | None) -> Task:
        """
        Start *function* as a task of *machine*.
        """
        task = Task(name, machine)
        self._tasks[task] = None
        old = _thread.stack_size(_STACK)
        try:
            _thread.start_new_thread(self._main, (task, function))
        finally:
            _thread.stack_size(old)
        self.wake(task)
        return task

    def check(self) -> None:
        """
        End the calling task if its machine was killed.
        """
        if self.current.is_killed:
            raise TaskKilledError

    def preempt(self) -> None:
        """
        Sometimes let other tasks run first.
        """
        self.check()
        if not self.atomic and self._ready and self._dice.random() < _PREEMPTED:
            self.wake(self.current)
            self._switch()

    def sleep(self, span_ns: int) -> None:
        """
        Wait for *span_ns* of true time.
        """
        self.wait(span_ns)

    def wait(self, span_ns: int | None) -> None:
        """
        Wait until another task calls `wake`, or for *span_ns* of true time.
        """
        self.check()
        task = self.current
        if span_ns is not None:
            self._number += 1
            heapq.heappush(self._timers, (self.now_ns + max(span_ns, 0), self._number, task, task.turn))
        self._switch()

    def wake(self, task: Task) -> None:
        """
        Let *task* continue when its turn comes.
        """
        if not task.is_ready and not task.is_done:
            task.is_ready = True
            task.turn += 1
            self._ready.append(task)

    def kill(self, machine: Machine) -> None:
        """
        End all tasks of *machine* where they are.
        """
        for task in list(self._tasks):
            if task.machine is machine:
                task.is_killed = True
                self.wake(task)

    def revive(self) -> None:
        """
        Let the first task, the script, continue after a failure so that it can clean up.
        """
        self._script.is_killed = False

    def alive(self, machine: Machine | None = None) -> int:
        """
        Return the number of tasks that live, on *machine* or in total.
        """
        return sum(1 for task in self._tasks if machine is None or task.machine is machine)

    # ---- the baton -------------------------------------------------------------------------------------------------

    def _main(self, task: Task, function: Callable[[], object]) -> None:
        _of_thread.interleaver = self
        task.ident = threading.get_ident()
        task.baton.acquire()
        try:
            self.check()
            function()
        except TaskKilledError:
            pass
        except BaseException:  # noqa: BLE001 - it is reported at the end of the run
            self.failures.append(f"{task.name}: {traceback.format_exc()}")
        task.is_done = True
        del self._tasks[task]
        for joiner in task.joiners:
            self.wake(joiner)
        following = self._next()
        self.current = following
        following.baton.release()

    def _switch(self) -> None:
        task, following = self.current, self._next()
        if following is not task:
            self.switches += 1
            self.current = following
            following.baton.release()
            if not task.baton.acquire(timeout=_REAL_PATIENCE_S):
                sys.stderr.write(f"{task.name} waited for {self.current.name} at {self.now_ns} ns\n")
                task.baton.acquire()
        if task.is_killed:
            raise TaskKilledError

    def _next(self) -> Task:
        while True:
            ready = [task for task in self._ready if not _is_paused(task)]
            if ready:
                task = ready[0] if len(ready) == 1 else self._dice.choice(ready)
                self._ready.remove(task)
                task.is_ready = False
                return task
            if not self._timers:
                message = f"every task waits at {self.now_ns} ns: {sorted(task.name for task in self._tasks)}"
                self.failures.append(message)
                self._script.is_killed = True
                return self._script
            at, _, task, turn = heapq.heappop(self._timers)
            if task.turn == turn and not task.is_done:
                self.now_ns = max(self.now_ns, at)
                self.wake(task)


def _is_paused(task: Task) -> bool:
    return task.machine is not None and task.machine.is_paused and not task.is_killed


class _OfThread(threading.local):
    interleaver: Interleaver | None = None


_of_thread: Final = _OfThread()


def current() -> Interleaver | None:
    """
    Return the interleaver of the calling thread's task.
    """
    return _of_thread.interleaver
