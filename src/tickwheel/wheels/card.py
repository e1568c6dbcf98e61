"""
Internal: the card of a design: its name, its options, its limits, and the geometry that suits a load.

Each design's file ends with its card, and `wheels.CARDS` collects the cards. `tickwheel lab` reads only the cards. The
advice about geometry follows from three costs:

* Ticks cause lateness. A tick should be at most one percent of any delay, except the shortest tenth of the delays.
* Long slots take time to read. A turn of a ring should be longer than nine in ten delays, and a slot should hold only
  a handful of timers at the peak.
* Levels cause cascades. A hierarchical wheel files each entry again at most once per level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["HANDFUL", "SLOTS_MAX", "Card", "Geometry", "Load", "in_words", "round_tick", "suitable_tick"]

LATENESS_SHARE: Final = 100
"""Minimum ratio of a delay to a tick. The shortest tenth of the delays is ignored."""
SLOTS_MAX: Final = 2**17
"""Maximum number of slots of a ring. A longer ring needs more than 100 MB, even if it is empty."""
HANDFUL: Final = 8
UNITS: Final = (
    ("days", 86_400_000_000, 2),
    ("h", 3_600_000_000, 2),
    ("min", 60_000_000, 2),
    ("s", 1_000_000, 1),
    ("ms", 1_000, 1),
)
"""For each unit, its name, its length in microseconds, and the smallest number that is written in this unit."""


@dataclass(frozen=True, slots=True)
class Load:
    """
    The statistics of a recorded trace of timers. A design's geometry is derived from these statistics.

    *sets* is the number of operations that set or move a timer. *moved* is the fraction of these that move, and
    *cancelled* the fraction whose timers are cancelled. *tenth_us*, *median_us*, *ninetieth_us* and *longest_us* are
    percentiles of the delays.
    """

    sets: int
    cancelled: float
    moved: float
    peak_pending: int
    tenth_us: int
    median_us: int
    ninetieth_us: int
    longest_us: int


@dataclass(frozen=True, slots=True)
class Geometry:
    """
    Options for a design (None if no geometry fits), and the reasons, as sentences.
    """

    options: Mapping[str, float] | None
    reasons: tuple[str, ...]


def _as_advised(card: Card, load: Load, given: Mapping[str, float]) -> Mapping[str, float]:
    return {**(card.advise(load).options or {}), **given}


def _nothing(_: Load) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True)
class Card:
    """
    The description of a design.

    Attributes:
        name: Name in the commands of `tickwheel lab`.
        breaks: The load at which the design breaks down.
        seen: The measurements that show this breakdown: "operation", "fire", "ring", "beat", "ticks" or "burst".
        advise: Returns the geometry that suits a load.
        shown: Returns options, with few slots, for a drawing of the wheel under a load.
        fit: Completes given options for a load; by default, with the advised options.
        options: Names of the options: tick, in seconds, and slots.
        compared: Options for comparisons with other designs; empty if the options depend on the load.
        trials: Sets of options for random tests.
        is_ticked: True if the original implementations wake up at every tick.
    """

    name: str
    make: Callable[..., Any]
    colour: str
    breaks: str
    seen: tuple[str, ...]
    advise: Callable[[Load], Geometry]
    shown: Callable[[Load], Mapping[str, float]] = _nothing
    fit: Callable[[Card, Load, Mapping[str, float]], Mapping[str, float]] = _as_advised
    options: tuple[str, ...] = ()
    compared: Mapping[str, float] = field(default_factory=dict)
    trials: tuple[Mapping[str, float], ...] = ({},)
    is_ticked: bool = False


def suitable_tick(load: Load) -> tuple[float, str]:
    tick_us = round_tick(load.tenth_us / LATENESS_SHARE)
    tick, short = in_words(tick_us), in_words(load.tenth_us)
    if tick_us * LATENESS_SHARE > load.tenth_us:
        return tick_us, f"a tick of {tick} is as fine as a trace is; a tenth of the delays are below {short}"
    return tick_us, f"a tick of {tick} is at most 1 % of the delays, a tenth of which are below {short}"


def round_tick(tick_us: float) -> float:
    """
    Round *tick_us* down to 1, 2 or 5 times a power of ten, and to at least 1 µs, the resolution of a trace.
    """
    if tick_us <= 1:
        return 1
    power = 10.0 ** math.floor(math.log10(tick_us))
    return float(max(step * power for step in (1, 2, 5) if step * power <= tick_us))


def in_words(us: float) -> str:
    for unit, size, least in UNITS:
        if us >= least * size:
            return f"{_digits(us / size)} {unit}"
    return f"{_digits(us)} us"


def _digits(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"  # noqa: PLR2004  the limit of three digits
