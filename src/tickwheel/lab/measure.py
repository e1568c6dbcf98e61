"""
Measures one design under one workload. `python -m tickwheel.lab.measure` reads its task and prints figures, as JSON.

The measurement runs in a separate process, so that no other code shares its memory and caches. In each phase, the
process acts like a driver that sleeps until the next deadline and is woken for an earlier deadline:

    fill     the initially pending timers are set
    churn    the steps of the workload, in order; each call in the second half is timed
    rest     no more timers are set, and most pending timers fire
    beat, quiet     see `lab.background`; on a new wheel with the same number of timers

Times are CPU time of the thread, so that other processes do not count. Python's garbage collector is off; a full
collection is timed separately.
"""

from __future__ import annotations

import gc
import json
import sys
from array import array
from pathlib import Path
from time import thread_time_ns
from typing import Any, Final

from tickwheel.lab._memory import resident_bytes
from tickwheel.lab.background import beat_ns, filled, quiet_ns
from tickwheel.lab.designs import Design, parse_design
from tickwheel.lab.workload import Workload
from tickwheel.wheels import NEVER, Expired
from tickwheel.wheels.view import RingView, ShownWheel

__all__ = ["Measurement", "main"]

BINS: Final = 128
"""Maximum number of bins in a picture of a ring. If a ring has more slots, each bin shows the fullest of its slots."""
PARTS: Final = 120
"""Number of parts into which the phase `rest` is divided, for curves over time."""
REST: Final = 0.9
"""The phase `rest` lasts until this fraction of the initially pending timers is due."""


class Measurement:
    def __init__(self, wheel: ShownWheel, workload: Workload) -> None:
        self._wheel = wheel
        self._has_ticks = wheel.abilities.tick_ns > 0
        self._workload = workload
        self._ids = array("Q", bytes(8 * workload.timers))
        self._armed = NEVER
        self._lateness = array("q")
        self._longest_ns = 0

    def run(self) -> dict[str, Any]:
        gc.collect()
        gc.disable()
        figures: dict[str, Any] = {"copies": self._workload.copies, "pending": len(self._workload.fill)}
        figures |= self._fill()
        began = thread_time_ns()
        gc.collect()
        figures["collection_ns"] = thread_time_ns() - began
        middle, end = len(self._workload.times) // 2, len(self._workload.times)
        figures["churn_ns"] = self._churn(0, middle) / max(middle, 1)
        self._churn_timed(middle, end)
        figures["occupancy"] = [_occupied(ring) for ring in self._wheel.rings() if ring.slots > 1]
        figures |= self._rest(self._workload.times[-1] if end else 0)
        figures["longest_ns"] = self._longest_ns
        figures["lateness_ns"] = self._lateness_by_rank()
        figures["cascades"] = self._wheel.stats()["cascades"]
        return figures

    def _fill(self) -> dict[str, float]:
        insert, ids = self._wheel.insert, self._ids
        before, began = resident_bytes(), thread_time_ns()
        for number, deadline in enumerate(self._workload.fill):
            ids[number] = insert(deadline, None)
        took, size = thread_time_ns() - began, len(self._workload.fill)
        self._arm()
        return {"fill_ns": took / size, "bytes": max(resident_bytes() - before, 0) / size}

    def _churn(self, first: int, last: int) -> int:
        began = thread_time_ns()
        for position in range(first, last):
            self._step(position)
        return thread_time_ns() - began

    def _churn_timed(self, first: int, last: int) -> None:
        for position in range(first, last):
            began = thread_time_ns()
            self._step(position)
            self._longest_ns = max(self._longest_ns, thread_time_ns() - began)

    def _step(self, position: int) -> None:
        # Do the work of a driver and its engine: wake up for due timers, advance the wheel, set, move or cancel.
        workload, wheel, ids = self._workload, self._wheel, self._ids
        now, number, deadline = workload.times[position], workload.numbers[position], workload.deadlines[position]
        while self._armed <= now:
            self._wake()
        if deadline < 0:
            wheel.cancel(ids[number])
            return
        if self._has_ticks:
            wheel.advance(now, 0)
        if not wheel.reschedule(ids[number], deadline):
            ids[number] = wheel.insert(deadline, None)
        if deadline < self._armed:
            self._arm()

    def _arm(self) -> None:
        due_at = self._wheel.next_expiration()
        self._armed = NEVER if due_at is None else due_at

    def _wake(self) -> list[Expired]:
        # As in real use, a cancelled timer may wake the driver in vain; then the wheel returns the next deadline.
        expired = self._wheel.advance(self._armed)
        self._arm()
        return expired

    def _rest(self, now: int) -> dict[str, Any]:
        # Record the curves: fired timers, cascaded timers and the longest wake-up, in each part of the phase.
        rest_ns = sorted(self._workload.fill)[int(REST * (len(self._workload.fill) - 1))]
        parts = [self._rest_part(now + rest_ns * number // PARTS) for number in range(1, PARTS + 1)]
        fired, cascades, longest, wake_ups, spent = map(list, zip(*parts, strict=True))
        self._longest_ns = max(self._longest_ns, *longest)
        curves = {"rest_ns": rest_ns, "fired": fired, "cascades": cascades, "longest_ns": longest}
        return {"fire_ns": sum(spent) / max(sum(fired), 1), "wake_ups": sum(wake_ups), "rest": curves}

    def _rest_part(self, until: int) -> tuple[int, int, int, int, int]:
        fired = longest = wake_ups = spent = 0
        cascades = self._wheel.stats()["cascades"]
        while self._armed <= until:
            now, began = self._armed, thread_time_ns()
            expired = self._wake()
            took = thread_time_ns() - began
            fired, wake_ups, spent, longest = fired + len(expired), wake_ups + 1, spent + took, max(longest, took)
            self._lateness.extend(now - entry.deadline for entry in expired)
        return fired, self._wheel.stats()["cascades"] - cascades, longest, wake_ups, spent

    def _lateness_by_rank(self) -> dict[str, int]:
        late = sorted(self._lateness) or [0]
        return {name: late[int(rank * (len(late) - 1))] for name, rank in (("half", 0.5), ("99 %", 0.99), ("all", 1.0))}


def _occupied(ring: RingView) -> dict[str, Any]:
    # The first number is the fill of the next slot.
    first = 0 if ring.pointer is None else ring.pointer + 1
    bins = min(ring.slots, BINS)
    fills = [0] * bins
    for index, count in ring.counts.items():
        place = (index - first) % ring.slots * bins // ring.slots
        fills[place] = max(fills[place], count)
    return {
        "name": ring.name,
        "slots": ring.slots,
        "slot_ns": ring.slot_ns,
        "entries": sum(ring.counts.values()),
        "occupied": len(ring.counts),
        "most": max(ring.counts.values(), default=0),
        "fills": fills,
    }


def _over_a_background(design: Design, pending: int) -> dict[str, float]:
    wheel = design.make()
    filled(wheel, pending)
    beat, now = beat_ns(wheel, 0)
    return {"beat_ns": beat, "tick_ns": wheel.abilities.tick_ns, "quiet_ns": quiet_ns(wheel, now)}


def main() -> None:
    job = json.load(sys.stdin)
    design = parse_design(job["wheel"])
    figures = Measurement(design.make(), Workload.read(Path(job["workload"]))).run()
    figures |= _over_a_background(design, figures["pending"])
    json.dump(figures, sys.stdout)


if __name__ == "__main__":
    main()
