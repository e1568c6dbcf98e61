"""
Compares asyncio on tickwheel's loop with asyncio on its own loop, uvloop and rloop.
"""

from __future__ import annotations

import asyncio
from importlib import import_module

from benchmarks.aio import echo, works
from benchmarks.model import Bar, Case, Measure
from benchmarks.timers import operations, realtime, weight
from benchmarks.timers.contenders import SUBJECTS, LoopContender, is_here

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

SIZES = (1_000, 100_000, 1_000_000)
MILLION = 1_000_000
LOOPS = ("asyncio", "uvloop", "rloop", "tickwheel")
WORKS_OF_TIMERS = {
    *("call_later+cancel", "call_later+cancel, int", "call_later+cancel, turns included"),
    *("longest pause", "lateness", "early"),
}
CONDITIONS = {
    name: text
    for name, text in (operations.CONDITIONS | weight.CONDITIONS | realtime.CONDITIONS).items()
    if name in WORKS_OF_TIMERS
} | (works.CONDITIONS | echo.CONDITIONS)
BARS = (
    Bar("call_later+cancel", against="asyncio", at_least=6),
    Bar("call_later+cancel", against="rloop"),
    Bar("call_later+cancel, int", against="tickwheel", against_work="call_later+cancel", at_least=0.9),
    Bar("due batch", against="asyncio", at_least=5),
    Bar("timeout", at_most=350),
    Bar("timeout", against="asyncio", at_least=5),
    Bar("timeout, int", against="tickwheel", against_work="timeout", at_least=0.9),
    Bar("timeout on asyncio's loop", subject="asyncio", against="asyncio", against_work="timeout"),
    Bar("timeout on uvloop", subject="uvloop", against="uvloop", against_work="timeout"),
    Bar("longest pause", at_most=5),
    Bar("early", clock="", at_most=0),
    Bar("lost", clock="", at_most=0),
    Bar("lateness p50", clock="wall", at_most=100),
    Bar("echo", clock="wall", against="asyncio", at_least=1, inverse=True),
    Bar("echo, cpu per request", against="asyncio", at_least=1),
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases: every workload with every number of timers on every installed loop.
    """
    here = [name for name in LOOPS if is_here(name)]
    chunks = {"chunks": 100 if quick else 300}
    found = [
        Case(__name__, work, name, size, chunks, 1 if size == MILLION else None)
        for work in ("call_later+cancel", "due batch")
        for size in (SIZES[:2] if quick else SIZES)
        for name in here
    ]
    found += [Case(__name__, "timeout", name, 0, chunks) for name in here]
    found += [Case(__name__, "longest pause", name, MILLION, {}, 1 if quick else None) for name in here]
    found += [Case(__name__, "lateness", name, 0, {"count": 60_000}, 1 if quick else 3) for name in here]
    size = {"count": 100_000 if quick else 300_000}
    return found + [Case(__name__, "echo", name, 10_000, size, 3 if quick else None) for name in here]


def contender_of(subject: str) -> LoopContender:
    """
    Return a contender with a new loop of the kind that *subject* names.
    """
    if subject == "tickwheel":
        return LoopContender(import_module("tickwheel.aio").EventLoop)
    if subject == "asyncio":
        return LoopContender(asyncio.SelectorEventLoop)
    made = SUBJECTS[subject][1]()
    assert isinstance(made, LoopContender)
    return made


def measure(work: str, subject: str, pending: int, *, chunks: int = 1, count: int = 0) -> list[Measure]:
    """
    Run one case in this process.
    """
    contender = contender_of(subject)
    found: list[Measure] = []
    if work == "echo":
        echo.run(contender.loop, pending, count, found)
    elif work == "timeout":
        contender.loop.run_until_complete(works.timeouts(subject, chunks, found))
    elif work == "due batch":
        contender.drive(works.due_batch(contender, pending, chunks, found))
    elif work == "lateness":
        contender.drive(realtime.lateness(contender, count, found))
    elif work == "longest pause":
        contender.drive(weight.pauses(contender, pending, found))
    else:
        contender.drive(operations.call_later_cancel(contender, pending, chunks, found))
    return found
