"""
The timer wheel of a simulated scheduler: the native engine, driven by a task.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from simulation._threads import Event, Thread, current_thread
from tickwheel.clock import Clock
from tickwheel.drivers import TimerWheel
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Engine

__all__ = ["forget_timers", "make_timers"]


class TaskDriver:
    """
    Fires timers in a task, as the thread driver does in a thread.
    """

    fires_itself = True

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._woken = Event()
        self._is_stopped = False
        self._thread: Thread | None = None

    def start(self, engine: Engine) -> None:
        """
        Drive *engine*.

        The task starts when the first timer is set.
        """
        self._engine = engine
        engine.on_earlier = self._wake
        engine.arm()

    def stop(self) -> None:
        self._is_stopped = True
        if self._thread is not None:
            self._woken.set()

    def abandon(self) -> None:
        """
        Do nothing: the simulation ends, so nothing has to be released.
        """

    def join(self, timeout: float | None = None) -> bool:
        if self._thread is None:
            return True
        if self._thread is current_thread():
            return False
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def after_fork(self) -> None:
        """
        Do nothing: a simulation does not fork.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return no figures.
        """
        return {"wakeups": 0}

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="tickwheel")
            self._thread.start()
        self._woken.set()

    def _run(self) -> None:
        engine = self._engine
        assert engine is not None
        while not self._is_stopped:
            self._woken.clear()
            deadline = engine.arm()
            now = engine.clock.monotonic_ns()
            if deadline is None or deadline > now:
                self._woken.wait(None if deadline is None else (deadline - now) / 1e9)
            if not self._is_stopped:
                engine.fire_due()


_made: list[TimerWheel] = []


def make_timers(*, clock: Clock | None = None) -> TimerWheel:
    """
    Make a wheel with the simulated driver. Called in place of the constructor of `TimerWheel`.
    """
    wheel = TimerWheel(clock=clock, driver=TaskDriver())
    _made.append(wheel)
    return wheel


def forget_timers() -> None:
    """
    Release all wheels at the end of a simulation, because killed machines have not closed theirs.
    """
    for wheel in _made:
        with suppress(ClosedError):
            wheel.drain()
    _made.clear()
