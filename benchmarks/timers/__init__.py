"""
In-process timers: tickwheel compared with asyncio, uvloop, rloop and a plain heap.
"""

from __future__ import annotations

from benchmarks.model import Bar, Case, Measure
from benchmarks.timers import contenders, operations, realtime, weight

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

SIZES = (1_000, 100_000, 1_000_000)
MILLION = 1_000_000
CONDITIONS = operations.CONDITIONS | weight.CONDITIONS | realtime.CONDITIONS
BARS = (
    Bar("call_later+cancel", against="asyncio", at_least=10),
    Bar("call_later+cancel", against="rloop", at_least=2.5),
    Bar("call_later+cancel, int", against="tickwheel", against_work="call_later+cancel", at_least=0.9),
    *(
        Bar(f"call_later+cancel, {name}", against="tickwheel", against_work="call_later+cancel", at_least=at_least)
        for names, at_least in (
            (("bool", "float subclass", "timedelta", "numpy.float64"), 1 / 1.5),
            (("numpy.int64", "numpy.timedelta64"), 1 / 3),
        )
        for name in names
    ),
    Bar("reschedule", at_most=80),
    Bar("reschedule", against="asyncio", at_least=15),
    Bar("reschedule, own list", at_most=70),
    Bar("reschedule, own list", against="asyncio", at_least=15),
    Bar("set+fire", against="asyncio", at_least=8),
    Bar("set+fire", against="rloop", at_least=1.3),
    Bar("call_later_many", against="asyncio", against_work="fill", at_least=25),
    Bar("bytes per pending timer", clock="", at_most=96),
    Bar("bytes per pending timer, by id", clock="", at_most=48),
    Bar("gc.collect", at_most=20),
    Bar("longest pause", at_most=2),
    Bar("wake-ups, no timer", clock="", at_most=0),
    Bar("wake-ups, one timer", clock="", at_most=1),
    Bar("early", clock="", at_most=0),
    Bar("lost", clock="", at_most=0),
    Bar("early, by hand", clock="", at_most=0),
    Bar("lost, by hand", clock="", at_most=0),
    Bar("lateness p50", clock="wall", at_most=80),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases: every workload with every number of timers for every installed subject.

    A quick run leaves out the size of a million timers, and runs slow cases once.
    """
    here = [name for name in contenders.SUBJECTS if contenders.is_here(name)]
    if quick:
        here = [name for name in here if name != "tickwheel-asyncio"]
    self_driven = [name for name in here if name != "heapq"]
    heavy = 1 if quick else None
    chunks = {"chunks": 100 if quick else 300}
    found = [
        Case(__name__, work, name, size, chunks, heavy if size == MILLION else None)
        for work in ("call_later+cancel", "reschedule", "set+fire")
        for size in SIZES
        for name in here
    ]
    if not quick:
        whole = ("fill", "weight", "weight by id", "longest pause")
        found += [Case(__name__, work, name, MILLION) for work in whole for name in here]
        found += [Case(__name__, "by hand", "tickwheel", 0, {"count": 10 * MILLION}, 1)]
    window = {"window_s": 2 if quick else 10}
    found += [Case(__name__, "wake-ups", name, 0, window, heavy) for name in self_driven]
    found += [Case(__name__, "lateness", name, 0, {"count": 100_000}, heavy) for name in self_driven]
    return found


def measure(
    work: str, subject: str, pending: int, *, chunks: int = 1, window_s: float = 10, count: int = 0
) -> list[Measure]:
    """
    Run one case in this process.
    """
    contender = contenders.make(subject)
    found: list[Measure] = []
    if work in operations.OPERATIONS:
        contender.drive(operations.OPERATIONS[work](contender, pending, chunks, found))
    elif work in weight.WEIGHTS:
        contender.drive(weight.WEIGHTS[work](contender, pending, found))
    elif work == "lateness":
        contender.drive(realtime.lateness(contender, count, found))
    elif work == "by hand":
        realtime.by_hand(count, found)
    elif work == "wake-ups":
        realtime.wake_ups(contender, window_s, found)
    return found
