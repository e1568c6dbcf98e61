from __future__ import annotations

__all__ = ["duration", "times"]

MINUTE_NS = 60 * 10**9


def duration(ns: float) -> str:
    """
    Format nanoseconds with three digits in the largest unit that fits. From a minute on, whole seconds are shown.
    """
    if ns >= MINUTE_NS:
        seconds, parts = round(ns / 1e9), []
        for name, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
            count, seconds = divmod(seconds, length)
            parts += [f"{count:,} {name}"] if count else []
        return " ".join(parts)
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns" if ns else "0"


def times(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,g} times"
