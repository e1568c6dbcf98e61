"""
The card of a design: its name, its options, where it breaks, and what geometry suits a load.

Each design's file ends with its card, and `wheels.CARDS` collects them; the lab reads nothing else about a design.

Three rules are behind the advice, each from what a design pays for:

* A tick is lateness. One percent of the shortest delays that matter (a tenth of all are shorter) is not noticed.
* A slot is a list to read. A ring should hold so many that the usual delays (nine in ten) fit into one turn, and that
  a slot holds a handful of the timers pending at the peak.
* A level is a cascade. Every entry of a hierarchical wheel is filed again once a level, at most.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["HANDFUL", "SLOTS_MAX", "Card", "Geometry", "Load", "in_words", "round_tick", "suitable_tick"]

LATENESS_SHARE: Final = 100
"""A tick is at most a hundredth of the delays that matter."""
SLOTS_MAX: Final = 2**17
"""More slots than this, 100 MB of empty ones, are not a ring any more."""
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
class Load:
    """
    The facts of a trace that decide about a geometry.

    Attributes:
        sets: Operations that set or move.
        cancelled: The share of sets that end in a cancel.
        moved: The share of operations that are moves.
        peak_pending: The most timers at once.
        tenth_us, median_us, ninetieth_us, longest_us: The delays, by rank.
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
    Options for a design, or None where none suits, and the reasons in sentences.
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
    A design.

    Attributes:
        name: What the lab's commands call it.
        make: What makes one from its options.
        colour: Its colour in charts.
        breaks: Where it breaks.
        seen: Which measurements show that: "operation", "fire", "ring", "beat", "ticks" or "burst".
        advise: The geometry that suits a load.
        shown: The geometry for a load that is small enough to be looked at.
        fit: The options for a load where some are given; by default those, and what is advised for the others.
        options: The names of what it takes: tick, in seconds, and slots.
        compared: The options in which it is compared with the others, as far as these do not depend on the load.
        trials: The options that are worth a random run each.
        is_ticked: Whether its originals are woken at every tick.
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
    """
    Return a tick in microseconds that suits *load*, and why.
    """
    tick_us = round_tick(load.tenth_us / LATENESS_SHARE)
    tick, short = in_words(tick_us), in_words(load.tenth_us)
    if tick_us * LATENESS_SHARE > load.tenth_us:
        return tick_us, f"a tick of {tick} is as fine as a trace is; a tenth of the delays are below {short}"
    return tick_us, f"a tick of {tick} is at most 1 % of the delays, a tenth of which are below {short}"


def round_tick(tick_us: float) -> float:
    """
    Return the next 1, 2 or 5 times a power of ten down from *tick_us*, at least 1: no finer than a trace.
    """
    if tick_us <= 1:
        return 1
    power = 10.0 ** math.floor(math.log10(tick_us))
    return float(max(step * power for step in (1, 2, 5) if step * power <= tick_us))


def in_words(us: float) -> str:
    """
    Return a duration as people say it.
    """
    for unit, size, least in UNITS:
        if us >= least * size:
            return f"{_digits(us / size)} {unit}"
    return f"{_digits(us)} us"


def _digits(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"  # noqa: PLR2004  where three digits end
