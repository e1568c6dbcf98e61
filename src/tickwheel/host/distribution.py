from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

__all__ = ["Distribution", "tallied"]

_STEPS: Final = 8
"""Number of buckets per doubling of the duration. A quantile's error is therefore at most an eighth of its value."""
_OCTAVES: Final = 40
"""Number of doublings, from a microsecond to twelve days. Longer durations count as twelve days."""
_LAST: Final = _STEPS * _OCTAVES - 1


class Distribution:
    """
    A histogram of durations, which one thread writes and any thread may read.
    """

    def __init__(self) -> None:
        self._counts = [0] * (_STEPS * _OCTAVES)
        self._max_ms = 0.0
        self._sum_ms = 0.0

    def add(self, durations: Sequence[float]) -> None:
        if not durations:
            return
        durations = sorted(durations)
        for index, count in tallied(durations, _index):
            self._counts[index] += count
        self._sum_ms += sum(durations)
        self._max_ms = max(self._max_ms, durations[-1])

    def figures(self) -> dict[str, Any]:
        counts = list(self._counts)
        edges = [(_edge_ms(index), count) for index, count in enumerate(counts) if count]
        return {
            "count": sum(counts),
            "p50_ms": self._quantile(edges, 0.5),
            "p99_ms": self._quantile(edges, 0.99),
            "max_ms": self._max_ms,
            "sum_ms": self._sum_ms,
            "histogram": [[edge, count] for edge, count in edges],
        }

    def snapshot(self) -> list[int]:
        return list(self._counts)

    def since(self, snapshot: list[int]) -> dict[str, Any]:
        counts = [now - before for now, before in zip(self._counts, snapshot, strict=True)]
        edges = [(_edge_ms(index), count) for index, count in enumerate(counts) if count]
        return {
            "count": sum(counts),
            "p50_ms": self._quantile(edges, 0.5),
            "p99_ms": self._quantile(edges, 0.99),
            "max_ms": self._quantile(edges, 1.0),
        }

    def _quantile(self, edges: list[tuple[float, int]], share: float) -> float:
        rest = sum(count for _, count in edges) * share
        for edge, count in edges:
            rest -= count
            if rest <= 0:
                return min(edge, self._max_ms)
        return 0.0


def tallied(durations: Sequence[float], bucket_of: Callable[[float], int]) -> Iterator[tuple[int, int]]:
    """
    Count sorted *durations* in buckets, which grow with the duration; yield each used bucket and its count.

    O(buckets * log(durations)).
    """
    begin, count = 0, len(durations)
    while begin < count:
        bucket = bucket_of(durations[begin])
        end = begin + 1
        if end < count:
            end = bisect_right(durations, bucket, end, key=bucket_of)
        yield bucket, end - begin
        begin = end


def _index(ms: float) -> int:
    us = int(ms * 1000) * _STEPS
    if us < _STEPS:
        return 0
    octave = us.bit_length() - 1  # of the microseconds; the next three bits select the eighth
    index = ((octave - 3) << 3) + ((us >> (octave - 3)) & (_STEPS - 1))
    return index if index < _LAST else _LAST  # noqa: FURB136  min() is a call, and this runs for each firing


def _edge_ms(index: int) -> float:
    octave, eighth = divmod(index, _STEPS)
    return (1 << octave) * (1 + (eighth + 1) / _STEPS) / 1000
