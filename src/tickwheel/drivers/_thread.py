from __future__ import annotations

import atexit
import sys
import threading
import time
import weakref
from typing import Any, Final

from tickwheel.drivers._waiter import Waiter, new_waiter
from tickwheel.drivers.contract import is_stepped
from tickwheel.drivers.fork import call_after_fork
from tickwheel.threads import Event, Thread, current_thread, refuse_eventlet, sleep
from tickwheel.timers.contract import Engine
from tickwheel.timers.locks import MIDDLE, new_lock
from tickwheel.typing import NonCopyable

__all__ = ["ThreadDriver"]

TURN_MAX: Final = 1024
"""
Maximum number of timers that one call of `fire_due` fires, so that other Python threads get their turn.
"""

PAUSE_S: Final = 0.1
"""Pause in seconds after an error of the clock or the wheel, so that a permanent error costs little."""

GRACE_S: Final = 1.0
"""Seconds for which the exit of the interpreter waits for running callbacks."""

_is_ending: Final = Event()
_running: weakref.WeakSet[ThreadDriver] = weakref.WeakSet()


class ThreadDriver(NonCopyable):
    """
    Fires in one daemon thread, which starts with the first timer and sleeps until the next deadline.

    Callbacks run in that thread, one after the other. The thread ends when the driver is stopped, or when the wheel is
    unreferenced and no timer is pending. If a callback raises an exception that is not an `Exception`, such as
    KeyboardInterrupt or SystemExit, `threading.excepthook` receives it, and the driver continues. A callback that calls
    `sys.exit()` ends only itself. Errors of a clock or a wheel also go to `threading.excepthook`, and the driver tries
    again after 0.1 seconds.

    In the child of a fork, the wheel is empty, and gets a new thread with its first timer. If a callback forks, the
    wheel is closed in the child, because the only thread there is the one that runs the callback.
    """

    fires_itself = True

    def __init__(self, name: str = "tickwheel") -> None:
        self._name = name
        self._engine: Engine | None = None
        self._waiter: Waiter
        self._thread: Thread | None = None
        self._lock = new_lock(MIDDLE)
        self._is_stopped = False
        self._is_abandoned = False
        self._wakeups = 0
        self._notices = 0

    def __repr__(self) -> str:
        state = "stopped" if self._is_stopped else "idle" if self._thread is None else "running"
        return f"<ThreadDriver {self._name!r} {state}>"

    def start(self, engine: Engine) -> None:
        refuse_eventlet()
        if self._engine is not None:
            message = "this driver has an engine already: make a new driver for each wheel"
            raise RuntimeError(message)
        if is_stepped(engine.clock):
            message = f"clock is {engine.clock!r}: a thread cannot wait on it, leave the driver out"
            raise ValueError(message)
        self._engine = engine
        self._waiter = new_waiter(engine.clock)
        engine.on_earlier = self._wake
        engine.arm()
        call_after_fork(self)

    def stop(self) -> None:
        self._is_stopped = True
        self._notify()

    def abandon(self) -> None:
        self._is_abandoned = True
        self._notify()

    def join(self, timeout: float | None = None) -> bool:
        with self._lock:  # a thread that is being started cannot be joined yet
            thread = self._thread
        if thread is None:
            return True
        if thread is current_thread():
            return False
        thread.join(timeout)
        return not thread.is_alive()

    def after_fork(self) -> None:
        """
        Forget the thread, which does not exist in the child. If a callback in that thread forked, stop the driver.
        """
        if self._engine is None:
            return
        is_inside = self._thread is current_thread()
        self._thread = None
        self._waiter = new_waiter(self._engine.clock)
        self._engine.after_fork()
        if is_inside:
            self._is_stopped = True
            self._engine.close()
        else:
            self._engine.arm()

    def stats(self) -> dict[str, Any]:
        """
        Return `wakeups`, and `notices`: the number of wake-ups by other threads, for an earlier deadline or for a stop.
        """
        return {"wakeups": self._wakeups, "notices": self._notices}

    def _notify(self) -> None:
        if self._thread is not None:
            self._waiter.wake()

    def _wake(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopped:
                if not _is_ending.is_set():
                    self._start_thread()
            else:
                self._waiter.wake()

    def _start_thread(self) -> None:
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # no thread is available: the next set tries again
            self._thread = None
            if "interpreter shutdown" in str(error):  # from 3.12 on also in atexit functions: nothing fires any more
                return
            raise
        _running.add(self)

    def _run(self) -> None:
        engine, me = self._engine, current_thread()
        assert engine is not None
        clock = engine.clock
        while self._thread is me and not self._is_stopped:
            try:
                deadline = engine.arm()
                if deadline is None and self._has_ended(engine):
                    return
                if deadline is None or deadline > clock.monotonic_ns():
                    is_notice = self._waiter.wait(deadline)
                    self._wakeups += 1
                    self._notices += is_notice
                    if is_notice:
                        continue
            except BaseException:  # noqa: BLE001  a user's clock or design may fail once and then work again
                _report(me)
                sleep(PAUSE_S)
                continue
            try:
                engine.fire_due(TURN_MAX)
            except BaseException:  # noqa: BLE001  see the class: the driver continues
                _report(me)

    def _has_ended(self, engine: Engine) -> bool:
        # A thread that sets a timer takes this lock afterwards, so it finds either this thread or no thread.
        with self._lock:
            if not self._is_abandoned or engine.arm() is not None:
                return False
            self._thread = None
        engine.drain()  # timers that never fire
        return True


def _report(thread: Thread) -> None:
    args = threading.ExceptHookArgs((*sys.exc_info(), thread))
    try:
        threading.excepthook(args)
    except BaseException:  # noqa: BLE001  an error of a hook must not stop the timers
        threading.__excepthook__(args)


def _stop_all() -> None:
    """
    End the threads before the interpreter shuts down, because a sleeping thread would later die in native code.
    """
    _is_ending.set()
    drivers = list(_running)
    for driver in drivers:
        driver.stop()
    deadline = time.monotonic() + GRACE_S
    for driver in drivers:
        driver.join(max(deadline - time.monotonic(), 0.0))


atexit.register(_stop_all)
