"""
Formats numbers for people.
"""

from __future__ import annotations

__all__ = ["duration", "times"]


def duration(ns: float) -> str:
    """
    Format nanoseconds in the largest unit that fits, with three digits.
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns" if ns else "0"


def times(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,g} times"
