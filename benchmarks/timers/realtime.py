"""
Workloads on the real clock.

Measures how late timers are, whether any is early, and how often an idle driver wakes up.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

from benchmarks.model import Measure
from benchmarks.timers.contenders import Contender, Work, do_nothing
from benchmarks.timers.operations import SEED
from tickwheel import TimerWheel
from tickwheel.testing import ManualClock

__all__ = ["CONDITIONS", "by_hand", "lateness", "switches", "wake_ups"]

PACE_S = 0.005

CONDITIONS = {
    "lateness": (
        "timers of 0 to 50 ms at random, 100 set every 5 ms; the callback reads time.monotonic() first of "
        "all; the deadline is time.monotonic() before the call, plus the delay"
    ),
    "early": "how many of these were called before their deadline, and by how much at most",
    "early, by hand": "the same of ten million set by call_at, on a clock that jumps by 0 to 1 s",
    "wake-ups, no timer": "voluntary context switches of the thread that drives, in 10 s (quick: 2 s)",
    "wake-ups, one timer": "the same with one timer due at the end of the window, its firing included",
}


def lateness(contender: Contender, count: int, found: list[Measure]) -> Work:
    """
    Set *count* short timers at a steady pace, and measure how late each is called.
    """
    draw = random.Random(SEED)
    late: list[float] = []

    def note(deadline: float) -> None:
        late.append(time.monotonic() - deadline)

    yield None
    timers = contender.timers
    for _ in range(count // 100):
        for _ in range(100):
            delay = draw.uniform(0, 0.05)
            timers.call_later(delay, note, time.monotonic() + delay)
        yield PACE_S
    yield 0.3
    late.sort()
    found += [
        Measure("lateness p50", late[len(late) // 2] * 1e6, "us", "wall"),
        Measure("lateness p99", late[len(late) * 99 // 100] * 1e6, "us", "wall"),
        Measure("early", sum(value < 0 for value in late), "timers"),
        Measure("earliest by", max(0.0, -late[0]) * 1e6, "us", "wall"),
        Measure("lost", count - len(late), "timers"),
    ]


def by_hand(count: int, found: list[Measure]) -> None:
    """
    Set *count* timers on a manual clock that jumps, and count timers that fire before their deadline or never.
    """
    draw = random.Random(SEED)
    clock = ManualClock(start_ns=draw.randrange(2**50))
    wheel = TimerWheel(clock=clock)
    early = fired = 0

    def note(deadline: float) -> None:
        nonlocal early, fired
        fired += 1
        early += clock.monotonic() < deadline

    for _ in range(count // 1000):
        for _ in range(1000):
            delay = draw.choice((0.001, 0.1, 10.0, 1000.0)) * draw.random()
            when = clock.monotonic() + delay
            wheel.call_at(when, note, when)
        clock.jump(draw.choice((0.0001, 0.01, 1.0)) * draw.random())
    while clock.jump_to_next() is not None:
        pass
    found += [Measure("early, by hand", early, "timers"), Measure("lost, by hand", count - fired, "timers")]


def wake_ups(contender: Contender, window_s: float, found: list[Measure]) -> None:
    """
    Count the wake-ups of a waiting driver: without a timer, and with a timer that is due at the end of the time window.
    """
    contender.start()
    contender.set_from_outside(0.001, do_nothing)
    time.sleep(0.3)
    before = switches()
    time.sleep(window_s)
    found.append(Measure("wake-ups, no timer", switches() - before, "wake-ups"))
    contender.set_from_outside(window_s, do_nothing)
    time.sleep(0.1)
    before = switches()
    time.sleep(window_s + 0.1)
    found.append(Measure("wake-ups, one timer", switches() - before, "wake-ups"))


def switches() -> int:
    """
    Return how often all threads except this one have gone to sleep, which is the number of their wake-ups.
    """
    own = str(threading.get_native_id())
    total = 0
    for task in Path("/proc/self/task").iterdir():
        if task.name != own:
            lines = (task / "status").read_text("ascii").splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
    return total
