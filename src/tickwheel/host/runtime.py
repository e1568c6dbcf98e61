from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from tickwheel.clock import Clock, MonotonicClock
from tickwheel.drivers import TimerWheel
from tickwheel.threads import (
    CallLock,
    Condition,
    Event,
    Gate,
    Lock,
    Thread,
    current_thread,
    ran_undisturbed,
)

__all__ = ["Runtime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    The client's and the engine's only source of time, threads and random numbers.

    The simulation replaces all of them, so that a seed determines the whole run.

    Attributes:
        monotonic: Seconds for internal waits and timeouts, from the finest clock of the system; tests do not move it.
        call_lock: Makes a lock for callers that wait for something else while they hold the lock.
        gate: Makes a gate; callers wait there until it opens.
        random: Returns a random float in [0, 1), for jitter and samples.
        token: Returns the given number of random bytes in hexadecimal, from the system's unseeded generator.
        timers: Makes a wheel that fires automatically, on the clock given by `clock=`.
        ran_undisturbed: Runs a function in the caller's thread if no signal or greenlet can interrupt it. Returns True
            if it ran.
    """

    clock: Clock = field(default_factory=MonotonicClock)
    monotonic: Callable[[], float] = time.perf_counter
    lock: Callable[[], Lock] = Lock
    condition: Callable[[Lock], Condition] = Condition
    event: Callable[[], Event] = Event
    call_lock: Callable[[], AbstractContextManager[Any]] = CallLock
    gate: Callable[[], Gate] = Gate
    thread: Callable[..., Thread] = Thread
    current_thread: Callable[[], threading.Thread] = current_thread
    random: Callable[[], float] = random.random
    token: Callable[[int], str] = secrets.token_hex
    timers: Callable[..., TimerWheel] = TimerWheel
    ran_undisturbed: Callable[[Callable[[], object]], bool] = ran_undisturbed
