"""
Overlays copies of a trace, until enough timers are pending.

Each copy begins at a different moment of the trace; these moments are evenly distributed. The timers that are pending
at each of these moments fill the wheel. Then all copies run together, each from its own moment.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO, Self

from tickwheel.errors import TickwheelError
from tickwheel.lab.trace import TraceOperation

__all__ = ["Workload", "WorkloadError", "workload_of"]

WARM = 0.1
"""Fraction of the trace, at its start, in which no copy of the trace begins, because too few timers are pending."""


class WorkloadError(TickwheelError, ValueError):
    """
    The load cannot be made from the trace.
    """


@dataclass(frozen=True, slots=True)
class Workload:
    """
    The operations for a wheel whose time is 0.

    The operations are in arrays, because a million objects would dominate the memory of the measured process. *timers*
    is the number of timers. The first ones are pending at the start, with the deadlines *fill*. Each step has a time
    (*times*), the index of its timer (*numbers*), and the timer's new deadline (*deadlines*; -1 cancels it). Times and
    deadlines are in nanoseconds.
    """

    timers: int
    copies: int
    fill: array[int]
    times: array[int]
    numbers: array[int]
    deadlines: array[int]

    def write(self, path: Path) -> None:
        columns = (self.fill, self.times, self.numbers, self.deadlines)
        head = array("q", (self.timers, self.copies, *map(len, columns)))
        with path.open("wb") as file:
            for column in (head, *columns):
                column.tofile(file)

    @classmethod
    def read(cls, path: Path) -> Self:
        with path.open("rb") as file:
            timers, copies, *lengths = _read(file, 6)
            return cls(timers, copies, *(_read(file, length) for length in lengths))


def workload_of(operations: Sequence[TraceOperation], pending: int, steps: int) -> Workload:
    times = [operation.t_us for operation in operations]
    if not times:
        raise WorkloadError("the trace is empty: take one that sets timers")
    warm_us = times[0] + int(WARM * (times[-1] - times[0]))
    probes = _snapshots(operations, _moments(warm_us, times[-1], 50))
    mean = sum(map(len, probes)) / len(probes)
    if mean < 1 / 2:
        raise WorkloadError("the trace has nothing pending for most of its time: take one with longer delays")
    copies = max(1, round(pending / mean))
    while True:
        moments = _moments(warm_us, times[-1], copies)
        snapshots = _snapshots(operations, moments)
        if sum(map(len, snapshots)) >= pending:
            return _joined(operations, times, moments, snapshots, steps)
        copies += max(1, copies // 50)


def _moments(first_us: int, last_us: int, copies: int) -> list[int]:
    # No copy begins at the very end, because no operations are left there.
    return [first_us + (last_us - first_us) * number // (copies + 1) for number in range(copies)]


def _snapshots(operations: Sequence[TraceOperation], moments: list[int]) -> list[dict[str, int]]:
    # For each moment, find the pending timers: the deadline of each key, relative to the moment.
    live: dict[str, int] = {}
    snapshots = []
    position = 0
    for moment in moments:
        while position < len(operations) and operations[position].t_us < moment:
            t_us, op, key, delay_us = operations[position]
            if op == "S":
                live[key] = t_us + delay_us
            else:
                live.pop(key, None)
            position += 1
        live = {key: deadline for key, deadline in live.items() if deadline > moment}
        snapshots.append({key: deadline - moment for key, deadline in live.items()})
    return snapshots


def _joined(
    operations: Sequence[TraceOperation],
    times: list[int],
    moments: list[int],
    snapshots: list[dict[str, int]],
    steps: int,
) -> Workload:
    numbers: dict[tuple[int, str], int] = {}
    fill = array("q")
    for copy, snapshot in enumerate(snapshots):
        for key, deadline_us in snapshot.items():
            numbers[copy, key] = len(fill)
            fill.append(deadline_us * 1_000)
    per_copy_us = (times[-1] - times[0]) * steps // (len(times) * len(moments)) + 1
    joined: list[tuple[int, int, int]] = []
    for copy, moment in enumerate(moments):
        first = bisect.bisect_left(times, moment)
        last = bisect.bisect_left(times, moment + per_copy_us)
        for t_us, op, key, delay_us in operations[first:last]:
            number = numbers.setdefault((copy, key), len(numbers))
            now = (t_us - moment) * 1_000
            joined.append((now, number, max(now + delay_us * 1_000, 0) if op == "S" else -1))
    joined.sort(key=itemgetter(0))
    nows, whose, deadlines = (array("q", map(itemgetter(column), joined)) for column in range(3))
    return Workload(len(numbers), len(moments), fill, nows, whose, deadlines)


def _read(file: BinaryIO, length: int) -> array[int]:
    column = array("q")
    column.fromfile(file, length)
    return column
