"""
Compares six wheel designs under one load: the cost of an operation, a firing, a tick and a pause.

The figures are those of `tickwheel lab compare`. Here each case is repeated, and the designs take turns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from benchmarks.model import Bar, Case, Measure
from tickwheel.lab.background import beat_ns, filled, quiet_ns
from tickwheel.lab.designs import Design
from tickwheel.lab.generate import Load, generate
from tickwheel.lab.measure import Measurement
from tickwheel.lab.tune import facts_of, fitted
from tickwheel.lab.workload import workload_of
from tickwheel.wheels import CARDS

__all__ = ["BARS", "CONDITIONS", "cases", "measure"]

SIZES = (1_000, 100_000, 1_000_000)
STEPS = 100_000
TRACE = Load("connections", seconds=60, size=100, seed=1)
TICK = {
    "single": {"tick": 0.001},
    "rounds": {"tick": 0.001},
    "hierarchical": {"tick": 0.001},
    "cascading": {"tick": 0.001},
}
CONDITIONS = {
    "operation": "set, move and cancel as idle timeouts of 30 s have them, laid over itself; wake-ups included",
    "fire": "nothing is set any more, and what is pending expires, wake-up by wake-up",
    "beat": "one short timer after the other, while so many wait that are not due for an hour",
    "quiet tick": "a tick in which nothing is due; a design without ticks has none",
    "longest pause": "the longest of all calls but the fill",
    "bytes per timer": "growth of the resident set over the fill",
    "geometry": "ticks of 1 ms, where a design has any; slots that suit the trace",
    "collector": "off",
}
BARS = tuple(
    Bar(work, against=design) for work in ("operation", "fire", "beat") for design in CARDS if design != "native"
)


def cases(*, quick: bool) -> list[Case]:
    """
    Return the cases: every design with every size.

    A quick run leaves out the size of a million.
    """
    sizes = SIZES[:2] if quick else SIZES
    return [
        Case(__name__, work, subject(name), size) for work in ("load", "background") for size in sizes for name in CARDS
    ]


def subject(name: str) -> str:
    """
    Return the name that a design has in the benchmarks: "tickwheel" for the native design.
    """
    return "tickwheel" if name == "native" else name


def measure(work: str, subject: str, pending: int) -> list[Measure]:
    """
    Run one case in this process.
    """
    design = geometry("native" if subject == "tickwheel" else subject)
    if work == "background":
        wheel = design.make()
        filled(wheel, pending)
        beat, now = beat_ns(wheel, 0)
        quiet = quiet_ns(wheel, now)
        return [Measure("beat", beat, "ns", "cpu"), *([Measure("quiet tick", quiet, "ns", "cpu")] if quiet else [])]
    figures: dict[str, Any] = Measurement(design.make(), workload_of(trace(), pending, STEPS)).run()
    return [
        Measure("operation", figures["churn_ns"], "ns", "cpu"),
        Measure("fire", figures["fire_ns"], "ns", "cpu"),
        Measure("longest pause", figures["longest_ns"], "ns", "cpu"),
        Measure("bytes per timer", figures["bytes"], "bytes"),
    ]


@cache
def trace() -> list[Any]:
    """
    Return a generated list of timer operations; the load is several copies of it.
    """
    return list(generate(TRACE))


def geometry(name: str) -> Design:
    """
    Return the design with slots and levels that suit the load.
    """
    return fitted(Design(name, TICK.get(name, {})), facts_of(trace()))
