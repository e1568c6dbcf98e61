"""
The source of a scheduler's time, threads and chance.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.drivers import TimerWheel
from tickwheel.threads import Condition, Event, Gate, Lock, Semaphore, Thread, current_thread

__all__ = ["Runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    The time, threads and chance of the scheduler's verbs and engine, which reach those of the system by nothing else.

    The defaults are the system's own; greenlets that wait let the others run. The simulation replaces all of them, so
    that one seed is one history.

    Attributes:
        clock: What jobs are due by; a test may move it by hand.
        monotonic: Seconds for waits and timeouts of our own, which no test moves; the finest clock that the system has.
        lock: Makes a lock.
        condition: Makes a condition on a lock.
        event: Makes an event.
        semaphore: Makes a semaphore with so many permits.
        call_lock: Makes a lock that callers hold while they wait for something else.
        gate: Makes a gate, at which callers wait until it opens.
        thread: Makes a thread, with the arguments of `threading.Thread`.
        current_thread: Returns the caller's thread.
        random: Returns a random float in [0, 1); for jitter and samples.
        token: Returns so many random bytes in hexadecimal, from the system rather than a generator that may be seeded.
        timers: Makes a wheel that fires automatically, with `clock=` by that clock.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    monotonic: Callable[[], float] = time.perf_counter
    lock: Callable[[], Lock] = Lock
    condition: Callable[[Lock], Condition] = Condition
    event: Callable[[], Event] = Event
    semaphore: Callable[[int], Semaphore] = Semaphore
    call_lock: Callable[[], Lock] = lambda: threading.Lock()  # noqa: PLW0108 - gevent may replace it at any time
    gate: Callable[[], Gate] = Gate
    thread: Callable[..., Thread] = Thread
    current_thread: Callable[[], threading.Thread] = current_thread
    random: Callable[[], float] = random.random
    token: Callable[[int], str] = secrets.token_hex
    timers: Callable[..., TimerWheel] = TimerWheel
