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

__all__ = ["Runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    The time, threads and chance of the scheduler's verbs and engine, which reach those of the system by nothing else.

    The defaults are the system's own. The simulation replaces all of them, so that one seed is one history.

    Attributes:
        clock: What jobs are due by; a test may move it by hand.
        monotonic: Seconds for waits and timeouts of our own, which no test moves; the finest clock that the system has.
        lock: Makes a lock.
        condition: Makes a condition on a lock.
        event: Makes an event.
        semaphore: Makes a semaphore with so many permits.
        thread: Makes a thread, with the arguments of `threading.Thread`.
        current_thread: Returns the caller's thread.
        random: Returns a random float in [0, 1); for jitter and samples.
        token: Returns so many random bytes in hexadecimal, from the system rather than a generator that may be seeded.
        timers: Makes a wheel that fires automatically, with `clock=` by that clock.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    monotonic: Callable[[], float] = time.perf_counter
    lock: Callable[[], threading.Lock] = threading.Lock
    condition: Callable[[threading.Lock], threading.Condition] = threading.Condition
    event: Callable[[], threading.Event] = threading.Event
    semaphore: Callable[[int], threading.Semaphore] = threading.Semaphore
    thread: Callable[..., threading.Thread] = threading.Thread
    current_thread: Callable[[], threading.Thread] = threading.current_thread
    random: Callable[[], float] = random.random
    token: Callable[[int], str] = secrets.token_hex
    timers: Callable[..., TimerWheel] = TimerWheel
