"""
A comparison as one HTML page that needs no network: the costs and weak points of each design.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any, Final

from tickwheel.lab._charts import Axis, line_chart, strip_chart
from tickwheel.lab._page import render_page, section, table
from tickwheel.lab._quantities import duration
from tickwheel.lab._slots_chart import slots_chart
from tickwheel.lab._verdicts import verdicts
from tickwheel.lab.compare import Comparison
from tickwheel.wheels import CARDS

__all__ = ["figures_table", "render_report"]

Row = dict[str, Any]

_PENDING: Final = Axis("timers pending", lambda value: f"{value:,.0f}")
COLUMNS: Final[tuple[tuple[str, Callable[[Row], str]], ...]] = (
    ("wheel", lambda row: row["wheel"]),
    ("pending", lambda row: f"{row['pending']:,}"),
    ("fill", lambda row: f"{row['fill_ns']:,.0f}"),
    ("set, move, cancel", lambda row: f"{row['churn_ns']:,.0f}"),
    ("fire", lambda row: f"{row['fire_ns']:,.0f}"),
    ("beat", lambda row: f"{row['beat_ns']:,.0f}"),
    ("longest pause", lambda row: duration(row["longest_ns"])),
    ("cascades", lambda row: f"{row['cascades']:,}"),
    ("wake-ups", lambda row: f"{row['wake_ups']:,}"),
    ("bytes a timer", lambda row: f"{row['bytes']:,.0f}"),
    ("collection", lambda row: duration(row["collection_ns"])),
)


def render_report(comparison: Comparison) -> str:
    copies = ", ".join(f"{row['copies']:,} for {size:,}" for size, row in _first_by_size(comparison).items())
    intro = (
        f"The trace “{comparison.trace}”, overlaid with copies of itself until enough timers are pending (copies: "
        f"{copies}). The more copies, the more operations share a wake-up. "
        f"Each design ran in a process of its own, on {comparison.machine}."
    )
    note = (
        "Nanoseconds of CPU time unless another unit is named. "
        "Python's garbage collector was off; a full collection was timed separately."
    )
    return render_page(
        title="Timing wheels under load",
        intro=intro,
        first=_verdicts(comparison),
        charts=_charts(comparison),
        note=note,
        table=table(*figures_table(comparison.rows)),
        figures=comparison.as_json(),
    )


def _verdicts(comparison: Comparison) -> str:
    return table(("design", "where it breaks", "seen here"), *verdicts(comparison.rows), kind="words")


def _charts(comparison: Comparison) -> Iterable[str]:
    yield _by_size(
        comparison,
        itemgetter("churn_ns"),
        "Cost of an operation",
        "Set, move and cancel as the trace has them, wake-ups in between included. "
        "A wheel stays flat; a heap climbs with the logarithm of what is pending.",
    )
    yield _by_size(
        comparison,
        itemgetter("fire_ns"),
        "Cost of a timer that fires",
        "Nothing is set any more, and what is pending expires: cascades, scans of slots, and the driver's calls.",
    )
    yield _by_size(
        comparison,
        itemgetter("beat_ns"),
        "A beat over far timers",
        "One short timer after another, while all the others are not due for a long time. "
        "Rounds reads them, slot by slot, to find what is next; a heap climbs past them; the others look at none.",
    )
    yield _by_size(
        comparison,
        _quiet,
        "A quiet second",
        "Nothing is due, and a driver that ticks, as skynet, Linux and Netty have it, still wakes up at each "
        "tick. The other designs sleep until something is due; here these can do so, too.",
        Axis("CPU time a second", duration, is_log=False),
    )
    yield _by_size(
        comparison,
        itemgetter("longest_ns"),
        "Longest pause",
        "The longest time that one call held up all others: a coarse slot that cascades, or a slot of many rounds.",
    )
    yield _by_size(
        comparison,
        itemgetter("bytes"),
        "Memory of a pending timer",
        "How much the process grew when the wheel was filled, for each timer.",
        Axis("bytes", lambda value: f"{value:g}"),
    )
    yield from _over_time(comparison)
    yield _lateness(comparison)
    yield _occupancy(comparison)


def _by_size(
    comparison: Comparison, figure: Callable[[Row], float], title: str, text: str, up: Axis | None = None
) -> str:
    sizes = list(_first_by_size(comparison))
    series: dict[str, list[float]] = {}
    for row in comparison.rows:
        series.setdefault(row["design"], []).append(figure(row))
    return section(title, text, line_chart(_PENDING, up or Axis("CPU time", duration), sizes, series))


def _quiet(row: Row) -> float:
    return row["quiet_ns"] * 1e9 / row["tick_ns"] if CARDS[row["design"]].is_ticked else 0.0


def _over_time(comparison: Comparison) -> Iterable[str]:
    rows = _largest(comparison)
    seconds = rows[0]["rest"]["rest_ns"] / 1e9
    cascades = {row["design"]: row["rest"]["cascades"] for row in rows if sum(row["rest"]["cascades"])}
    if cascades:
        yield section(
            "Cascades over time",
            f"Entries that were filed again, in each part of the {seconds:.3g} s in which nothing is set: "
            "fine slots trickle, coarse ones burst.",
            strip_chart("cascades over time", lambda value: f"{value:,.0f}", cascades, seconds),
        )
    longest = {row["design"]: row["rest"]["longest_ns"] for row in rows}
    yield section(
        "Longest wake-up over time",
        "In the same parts: where a burst of cascades hurts.",
        strip_chart("longest wake-up over time", duration, longest, seconds),
    )


def _lateness(comparison: Comparison) -> str:
    rows = _largest(comparison)
    ranks = list(rows[0]["lateness_ns"]) if rows else []
    lines = [[row["design"], *(duration(row["lateness_ns"][rank]) for rank in ranks)] for row in rows]
    return section(
        "Lateness by design",
        "How late the design alone makes a timer, with a driver that wakes up exactly on time: "
        "less than a tick, and not at all where deadlines are exact.",
        table(["design", *(f"{rank} at most" for rank in ranks)], *lines),
    )


def _occupancy(comparison: Comparison) -> str:
    rings = [(row["design"], ring) for row in _largest(comparison) for ring in row["occupancy"] if ring["entries"]]
    rings = [(design, ring) for design, ring in rings if not ring["name"].startswith("depth")]
    return section(
        "Slot occupancy",
        "At the largest size, after the churn: how many entries each slot holds, on a logarithmic scale, from the slot "
        "that comes next on the left to the farthest; occupied slots, and the fullest. The fullest coarse slot is the "
        "longest cascade to come. A heap has no slots; rings that are empty are not drawn.",
        slots_chart(rings),
    )


def figures_table(rows: Iterable[Row]) -> list[list[str]]:
    return [[title for title, _ in COLUMNS], *([write(row) for _, write in COLUMNS] for row in rows)]


def _first_by_size(comparison: Comparison) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for row in comparison.rows:
        rows.setdefault(row["size"], row)
    return rows


def _largest(comparison: Comparison) -> list[Row]:
    most = max((row["size"] for row in comparison.rows), default=0)
    return [row for row in comparison.rows if row["size"] == most]
