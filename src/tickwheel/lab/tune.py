from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tickwheel.lab.designs import Design
from tickwheel.lab.replay import replay
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import CARDS, HeapWheel
from tickwheel.wheels.card import SLOTS_MAX, Load

__all__ = ["SLOTS_MAX", "Advice", "Load", "advise", "facts_of", "fitted"]


@dataclass(frozen=True, slots=True)
class Advice:
    """
    A geometry for one design (None if no geometry fits), and the reasons, as sentences.
    """

    design: Design | None
    reasons: tuple[str, ...]


def facts_of(operations: Iterable[TraceOperation]) -> Load:
    operations = list(operations)
    delays = sorted(operation.delay_us for operation in operations if operation.op == "S") or [0]
    counts = replay(operations, HeapWheel()).counts
    tenth, median, ninetieth = (delays[int(share * (len(delays) - 1))] for share in (0.1, 0.5, 0.9))
    return Load(
        sets=counts.set + counts.move,
        cancelled=counts.cancel / max(counts.set, 1),
        moved=counts.move / max(len(operations), 1),
        peak_pending=counts.peak_pending,
        tenth_us=tenth,
        median_us=median,
        ninetieth_us=ninetieth,
        longest_us=delays[-1],
    )


def advise(load: Load, name: str) -> Advice:
    geometry = CARDS[name].advise(load)
    design = None if geometry.options is None else Design(name, dict(geometry.options))
    return Advice(design, geometry.reasons)


def fitted(design: Design, load: Load) -> Design:
    card = CARDS[design.name]
    if all(option in design.options for option in card.options):
        return design
    return Design(design.name, dict(card.fit(card, load, design.options)))
