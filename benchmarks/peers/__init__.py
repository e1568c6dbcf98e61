"""
Compares tickwheel's timers with timers of other languages.

For each language there is a small program in this folder. All programs are pinned to one core. If a toolchain or a
library is missing, its peers are left out, and the conditions name the reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benchmarks.model import Bar, Case, Measure
from benchmarks.peers.ours import WORKS
from benchmarks.peers.programs import PEERS, missing
from tickwheel import TimerWheel

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

SIZES = (1_000, 100_000, 1_000_000)
SHORT = 20_000
UNITS = {
    "set+cancel": ("ns", "cpu"),
    "move": ("ns", "cpu"),
    "move, cold": ("ns", "cpu"),
    "restart": ("ns", "cpu"),
    "set+fire": ("ns", "cpu"),
    "bytes per timer": ("bytes", ""),
    "bytes per timer, live": ("bytes", ""),
    "idle second": ("us", "cpu"),
    "wake-ups": ("wake-ups", ""),
    "lateness p50": ("us", "wall"),
    "lateness p99": ("us", "wall"),
    "early": ("timers", ""),
    "lost": ("timers", ""),
}
BARS: tuple[Bar, ...] = ()
CONDITIONS = {
    "all": (
        "one core for all threads; CPU of all threads, collectors and compilers included; the collectors are on; code "
        "that is compiled while it runs is warmed up first: half a second and more before each window, 200,000 "
        "timers before a batch, 10,000 before lateness"
    ),
    "set+cancel": (
        "one timer of two hours, later than all that is pending, set and cancelled, for 0.3 s of CPU; a turn of the "
        "loop after every 1,000, where there is a loop"
    ),
    "move": (
        "1,000 busy ones of the pending timers, each moved 1 to 60 s further, again and again. tickwheel: reschedule; "
        "Go: Reset; go-zero: MoveTimer; tokio: reset, reset_at; the others have no move, so they cancel and set again"
    ),
    "move, cold": "the same with a random one of all that are pending",
    "restart": "the same 1,000, each begun again: tickwheel by restart, with two hours; Node by refresh, as it was set",
    "set+fire": (
        "as many timers as the column says, set for one instant, until the last has been called; nothing else is "
        "pending. The callback counts: a C function here, else a closure. Go: a goroutine for each; tokio Sleep: a "
        "task for each; DelayQueue: one task takes all; what takes a delay reads the clock before each set"
    ),
    "bytes per timer": (
        "growth of the resident set while so many are set for half an hour to two hours from now, with one callback; "
        "after a collection, where there is a collector; not weighed with 1,000, which are a few pages. Handles are "
        "kept, in an array that was there before; go-zero has keys instead; a Sleep is boxed and polled once, with no "
        "task of its own; Node's are of whole milliseconds"
    ),
    "bytes per timer, live": "the same by the runtime's own count of its live heap",
    "idle second": "CPU of all threads in a second in which so many are pending and none is due, runtime included",
    "wake-ups": "voluntary context switches of all threads in that second, but for the thread that sleeps through it",
    "lateness": (
        f"{SHORT:,} timers of 1 to 50 ms, whole milliseconds, 100 set every 5 ms; the callback reads the monotonic "
        "clock first of all; the deadline is that clock before the call, plus the delay"
    ),
    "early": "how many of these were called before their deadline",
    "slots": "go-zero 300, as in its own cache; Netty 512, Kafka 20, their defaults; RussellLuo 20, as in its README",
}


def cases(*, quick: bool) -> list[Case]:
    """
    Build the programs and return the cases.

    If a program cannot be built, the conditions name the reason.
    """
    subjects = ["tickwheel"]
    for subject, peer in PEERS.items():
        why = missing(peer.program)
        if why:
            CONDITIONS[f"{subject}: not measured"] = why
            print(f"{subject}: not measured: {why}", file=sys.stderr)
        else:
            subjects.append(subject)
    sizes = SIZES[:2] if quick else SIZES
    found = [Case(__name__, work, name, size) for work in ("pending", "fire") for size in sizes for name in subjects]
    return found + [Case(__name__, "lateness", name, SHORT) for name in subjects]


def measure(work: str, subject: str, pending: int) -> list[Measure]:
    """
    Run one case on one core. Tickwheel's timers run in this process, a peer's timers in a separate process.

    Raises:
        SystemExit: If the peer's program failed. Its output is printed first.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if subject == "tickwheel":
        with TimerWheel() as wheel:
            return measures(WORKS[work](wheel, pending), pending)
    command = [*PEERS[subject].command, work, str(pending)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        print(answer.stderr, file=sys.stderr)
        sys.exit(f"{subject} failed with {answer.returncode}")
    return measures(json.loads(answer.stdout), pending)


def measures(figures: dict[str, float], pending: int) -> list[Measure]:
    """
    Return the figures that a program has printed, with their units.

    The memory per timer is left out for small numbers of timers, which take only a few pages.
    """
    found = [Measure(work, value, *UNITS[work]) for work, value in figures.items()]
    return [measure for measure in found if measure.unit != "bytes" or pending >= SIZES[1]]
