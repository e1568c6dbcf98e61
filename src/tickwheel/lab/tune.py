"""
Which tick and how many slots suit a trace, and why.

Three rules, each from what a design pays for:

* A tick is lateness. One percent of the shortest delays that matter (a tenth of all are shorter) is not noticed.
* A slot is a list to read. A ring should hold so many that the usual delays (nine in ten) fit into one turn, and that
  a slot holds a handful of the timers pending at the peak.
* A level is a cascade. Every entry of a hierarchical wheel is filed again once a level, at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tickwheel.lab.designs import DESIGNS, Design
from tickwheel.lab.replay import replay
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import HeapWheel

__all__ = ["SLOTS_MAX", "Advice", "TraceFacts", "advise", "facts_of", "fitted", "round_tick"]

LATENESS_SHARE: Final = 100
"""A tick is at most a hundredth of the delays that matter."""
SLOTS_MAX: Final = 2**17
"""More slots than this, 100 MB of empty ones, are no ring any more."""
HANDFUL: Final = 8
UNITS: Final = (
    ("days", 86_400_000_000, 2),
    ("h", 3_600_000_000, 2),
    ("min", 60_000_000, 2),
    ("s", 1_000_000, 1),
    ("ms", 1_000, 1),
)
"""Each unit, its microseconds, and from how many of them on it is used."""


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """
    What of a trace decides about a geometry.

    Attributes:
        sets: Operations that set or move.
        cancelled: The share of sets that end in a cancel.
        moved: The share of operations that are moves.
        peak_pending: The most timers at once.
        shortest_us, tenth_us, median_us, ninetieth_us, longest_us: The delays, by rank.
    """

    sets: int
    cancelled: float
    moved: float
    peak_pending: int
    shortest_us: int
    tenth_us: int
    median_us: int
    ninetieth_us: int
    longest_us: int


@dataclass(frozen=True, slots=True)
class Advice:
    """
    A geometry for one design, or none, and the reasons in sentences.
    """

    design: Design | None
    reasons: tuple[str, ...]


def facts_of(operations: Iterable[TraceOperation]) -> TraceFacts:
    """
    Return the facts of a trace, which is played once for them.
    """
    operations = list(operations)
    delays = sorted(operation.delay_us for operation in operations if operation.op == "S") or [0]
    counts = replay(operations, HeapWheel()).counts
    tenth, median, ninetieth = (delays[int(share * (len(delays) - 1))] for share in (0.1, 0.5, 0.9))
    return TraceFacts(
        sets=counts.set + counts.move,
        cancelled=counts.cancel / max(counts.set, 1),
        moved=counts.move / max(len(operations), 1),
        peak_pending=counts.peak_pending,
        shortest_us=delays[0],
        tenth_us=tenth,
        median_us=median,
        ninetieth_us=ninetieth,
        longest_us=delays[-1],
    )


def advise(facts: TraceFacts, name: str) -> Advice:
    """
    Return what geometry suits the design of this *name*.
    """
    if name == "native":
        return Advice(Design("native"), ("it has no tick and no slots to choose, and every operation is O(1)",))
    if name == "heap":
        steps = max(facts.peak_pending, 2).bit_length() - 1
        return Advice(Design("heap"), (f"nothing to choose; up to {steps} steps to an operation at the peak",))
    tick_us = round_tick(facts.tenth_us / LATENESS_SHARE)
    because = f"a tick of {_s(tick_us)} is at most 1 % of the delays, a tenth of which are below {_s(facts.tenth_us)}"
    if name == "single":
        return _advise_single(facts, tick_us, because)
    if name == "rounds":
        return _advise_rounds(facts, tick_us, because)
    if name == "hierarchical":
        return _advise_hierarchical(facts, tick_us, because)
    turn_s = 2**32 * tick_us / 1e6
    reach = f"its counter wraps after {turn_s / 86_400:.0f} days, later delays wait in a heap"
    return Advice(Design("cascading", {"tick": tick_us / 1e6}), (because, reach))


def fitted(design: Design, facts: TraceFacts) -> Design:
    """
    Return *design* with what of its geometry was not given, chosen for a trace.
    """
    _, known = DESIGNS[design.name]
    if all(option in design.options for option in known):
        return design
    advice = advise(facts, design.name).design or _forced_single(facts)
    options = {**advice.options, **design.options}
    if design.name == "single" and "slots" not in design.options:
        options["slots"] = _slots_for(facts.longest_us, options["tick"] * 1e6)
    return Design(design.name, options)


def _advise_single(facts: TraceFacts, tick_us: float, because: str) -> Advice:
    slots = _slots_for(facts.longest_us, tick_us)
    if slots > SLOTS_MAX:
        return Advice(
            None,
            (because, f"the longest delay, {_s(facts.longest_us)}, takes {slots} slots, which is no ring any more"),
        )
    reach = f"{slots} slots hold the longest delay, {_s(facts.longest_us)}"
    return Advice(Design("single", {"tick": tick_us / 1e6, "slots": slots}), (because, reach))


def _advise_rounds(facts: TraceFacts, tick_us: float, because: str) -> Advice:
    turn = facts.ninetieth_us / tick_us
    crowd = facts.peak_pending / HANDFUL
    slots = min(_power_of_two(max(turn, crowd, 64)), SLOTS_MAX)
    turn_us = slots * tick_us
    covers = f"a turn of {slots} slots is {_s(turn_us)}; nine delays in ten are below {_s(facts.ninetieth_us)}"
    rounds = facts.longest_us / turn_us
    far = "every delay is due in its first round" if rounds <= 1 else f"the longest waits {rounds:.0f} rounds"
    return Advice(Design("rounds", {"tick": tick_us / 1e6, "slots": slots}), (because, covers, far))


def _advise_hierarchical(facts: TraceFacts, tick_us: float, because: str) -> Advice:
    slots = 64
    ticks = max(facts.longest_us / tick_us, 2)
    levels = max(1, math.ceil(math.log(ticks, slots)))
    reach = f"{levels} wheels of {slots} slots hold the longest delay, {_s(facts.longest_us)}"
    return Advice(Design("hierarchical", {"tick": tick_us / 1e6, "slots": slots}), (because, reach))


def _forced_single(facts: TraceFacts) -> Design:
    # Asked for all the same: as coarse a tick as its ring takes.
    return Design("single", {"tick": round_tick(facts.longest_us / SLOTS_MAX * 2) / 1e6})


def _slots_for(longest_us: float, tick_us: float) -> int:
    return max(2, math.ceil(longest_us / tick_us) + 2)


def round_tick(tick_us: float) -> float:
    """
    Return the next 1, 2 or 5 times a power of ten down from *tick_us*, at least 1: no finer than a trace.
    """
    if tick_us <= 1:
        return 1
    power = 10.0 ** math.floor(math.log10(tick_us))
    return float(max(step * power for step in (1, 2, 5) if step * power <= tick_us))


def _power_of_two(number: float) -> int:
    return 1 << max(math.ceil(number) - 1, 1).bit_length()


def _s(us: float) -> str:
    """
    Return a duration as people say it.
    """
    for unit, size, least in UNITS:
        if us >= least * size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"
