"""
Where each design breaks, said with the figures of a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tickwheel.lab._quantities import duration, times

__all__ = ["TICKED", "verdicts"]

Row = dict[str, Any]
TICKED: Final = frozenset({"single", "rounds", "cascading"})
"""Designs whose originals are woken at every tick; the others sleep until something is due."""


def verdicts(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """
    Return for each design its name, where it breaks, and what was seen of that from the smallest size to the largest.
    """
    by_design: dict[str, list[Row]] = {}
    for row in rows:
        by_design.setdefault(row["design"], []).append(row)
    return [(name, *_VERDICTS[name](sized[0], sized[-1])) for name, sized in by_design.items()]


def _native(first: Row, last: Row) -> tuple[str, str]:
    return "nowhere on this load", _operation(first, last)


def _heap(first: Row, last: Row) -> tuple[str, str]:
    fire = f"to fire one {duration(last['fire_ns'])}, {duration(first['fire_ns'])}"
    return "the logarithm: every set, move and cancel climbs the tree", f"{_operation(first, last)}; {fire}"


def _single(_: Row, last: Row) -> tuple[str, str]:
    ring = next(ring for ring in last["occupancy"] if ring["slots"] > 1)
    return (
        "the span: a delay longer than the ring is refused",
        f"{ring['slots']:,} slots of {duration(ring['slot_ns'])} for the longest delay, {ring['occupied']:,} occupied",
    )


def _rounds(first: Row, last: Row) -> tuple[str, str]:
    grew = times(last["beat_ns"] / first["beat_ns"])
    seen = f"a beat over {last['pending']:,} far timers costs {duration(last['beat_ns'])}, {grew} as much as"
    return "the scan: what is due in a later round is read again and again", f"{seen} over {first['pending']:,}"


def _hierarchical(_: Row, last: Row) -> tuple[str, str]:
    return "the burst: a coarse slot cascades all at once", _burst(last)


def _cascading(_: Row, last: Row) -> tuple[str, str]:
    ticks = 1e9 / last["tick_ns"]
    spent = f"{ticks:,.0f} wake-ups and {duration(last['quiet_ns'] * ticks)} of CPU time for a second with nothing due"
    return "the tick, when it is driven as its originals are; and the burst", f"{spent}; {_burst(last)}"


def _operation(first: Row, last: Row) -> str:
    few, many = (f"{duration(row['churn_ns'])} with {row['pending']:,}" for row in (first, last))
    return f"an operation costs {many} pending, {few}"


def _burst(row: Row) -> str:
    most = max(ring["most"] for ring in row["occupancy"])
    return f"a pause of {duration(row['longest_ns'])}; the fullest slot holds {most:,}"


_VERDICTS: Final[Mapping[str, Callable[[Row, Row], tuple[str, str]]]] = {
    "native": _native,
    "heap": _heap,
    "single": _single,
    "rounds": _rounds,
    "hierarchical": _hierarchical,
    "cascading": _cascading,
}
