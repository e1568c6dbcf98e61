"""
Critical instants, at which other wheels have failed.

If a wheel has 64 or 256 slots per level, the span of each level is a power of this number. Tests run past all of these
powers. (tokio's timers hung after 12.4 days, when the top level came round to the slot of `now`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel.clock import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["INSTANTS", "around", "level_edges"]


def level_edges(tick_ns: int = 1) -> list[int]:
    """
    Return all powers of 64 and of 256, in ticks of *tick_ns*, that are valid deadlines, in ascending order.
    """
    powers = {64**exponent for exponent in range(1, 11)} | {256**exponent for exponent in range(1, 8)} | {2**62}
    return sorted(power * tick_ns for power in powers if power * tick_ns < NEVER)


def around(instants: Iterable[int], *distances: int) -> list[int]:
    """
    Return each instant, and the valid deadlines at the *distances* before and after it, in ascending order.
    """
    offsets = {0, *distances, *(-distance for distance in distances)}
    candidates = {instant + offset for instant in instants for offset in offsets}
    return sorted(candidate for candidate in candidates if 0 <= candidate <= NEVER)


INSTANTS = around([0, *level_edges(), NEVER], 1)
"""0, the edge of each level, and the end of time, each with the instants just before and after."""
