from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tickwheel.lab._quantities import duration, times
from tickwheel.wheels import CARDS

__all__ = ["verdicts"]

Row = dict[str, Any]


def verdicts(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """
    Return, for each design, its name, its weak point, and the figures that show this point. *rows* are sorted by size.
    """
    by_design: dict[str, list[Row]] = {}
    for row in rows:
        by_design.setdefault(row["design"], []).append(row)
    return [(name, CARDS[name].breaks, _seen(name, sized[0], sized[-1])) for name, sized in by_design.items()]


def _seen(name: str, first: Row, last: Row) -> str:
    return "; ".join(_MEASUREMENTS[seen](first, last) for seen in CARDS[name].seen)


def _operation(first: Row, last: Row) -> str:
    few, many = (f"{duration(row['churn_ns'])} with {row['pending']:,}" for row in (first, last))
    return f"an operation costs {many} pending, {few}"


def _fire(first: Row, last: Row) -> str:
    return f"to fire one {duration(last['fire_ns'])}, {duration(first['fire_ns'])}"


def _ring(_: Row, last: Row) -> str:
    ring = next(ring for ring in last["occupancy"] if ring["slots"] > 1)
    span = f"{ring['slots']:,} slots of {duration(ring['slot_ns'])} for the longest delay"
    return f"{span}, {ring['occupied']:,} occupied"


def _beat(first: Row, last: Row) -> str:
    grew = times(last["beat_ns"] / first["beat_ns"])
    seen = f"a beat over {last['pending']:,} far timers costs {duration(last['beat_ns'])}, {grew} as much as"
    return f"{seen} over {first['pending']:,}"


def _ticks(_: Row, last: Row) -> str:
    ticks = 1e9 / last["tick_ns"]
    spent = duration(last["quiet_ns"] * ticks)
    return f"{ticks:,.0f} wake-ups and {spent} of CPU time for a second with nothing due"


def _burst(_: Row, last: Row) -> str:
    most = max(ring["most"] for ring in last["occupancy"])
    return f"a pause of {duration(last['longest_ns'])}; the fullest slot holds {most:,}"


_MEASUREMENTS: Final[Mapping[str, Callable[[Row, Row], str]]] = {
    "operation": _operation,
    "fire": _fire,
    "ring": _ring,
    "beat": _beat,
    "ticks": _ticks,
    "burst": _burst,
}
