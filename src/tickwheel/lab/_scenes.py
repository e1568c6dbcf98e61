"""
Short animations on the page of a trace. They show faults of wheel designs, and a timer whose delay the user chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tickwheel.lab._faulty import EarlyWheel, RawSlotWheel
from tickwheel.lab._quantities import duration
from tickwheel.lab.film import Recorder
from tickwheel.lab.trace import TraceOperation
from tickwheel.wheels import CascadingWheel, HeapWheel, HierarchicalWheel, NativeWheel, SingleWheel
from tickwheel.wheels.view import ShownWheel

__all__ = ["clock_face", "own_timer", "scenes"]

Wheels = dict[str, ShownWheel]

SECOND: Final = 1_000_000
STEPS: Final = 120
LEAD_IN: Final = 3
OWN_US: Final = tuple(int(seconds * SECOND) for seconds in (0.5, 2, 3, 5, 7, 11, 17, 28, 45, 80, 150, 290))
"""The delays, in microseconds, from which the user of the page chooses. A film is recorded for each delay."""


def scenes() -> list[dict[str, Any]]:
    return [_early(), _lost_move(), _coarse_tick(), _burst()]


def clock_face() -> dict[str, Any]:
    text = (
        "A clock is a timing wheel with rings of seconds, minutes and hours. A timer waits in the ring of its largest "
        "unit; when the hand comes to its slot, the rest of its delay decides the slot in the next finer ring."
    )
    delays = {"egg": 5, "tea": 3 * 60 + 20, "bread": 45 * 60 + 10, "guests": 2 * 3600 + 15 * 60 + 30}
    operations = [_set(0, key, seconds) for key, seconds in delays.items()]
    wheels: Wheels = {"clock": HierarchicalWheel(tick=1, slots=60), "heap": HeapWheel()}
    scene = _scene("clock", "A clock", text, operations, wheels)
    return {**scene, "asks": True}


def own_timer() -> dict[str, Any]:
    others = [_set(0, f"other {number}", seconds) for number, seconds in enumerate((1.5, 4, 6, 6, 13, 13.5, 40, 90), 1)]
    runs = []
    for delay_us in OWN_US:
        operations = [*others, TraceOperation(SECOND // 10, "S", "yours", delay_us)]
        wheels: Wheels = {
            "hierarchical": HierarchicalWheel(tick=1, slots=8),
            "heap": HeapWheel(),
            "native": NativeWheel(),
        }
        runs.append({"label": duration(delay_us * 1_000), "films": _films(operations, wheels)})
    text = (
        "Choose a delay, or click into a ring: the timer with the recorded delay nearest to there is set. "
        "Each choice is a recorded run of the real wheel; the page computes nothing."
    )
    return {"id": "yours", "title": "Set your own", "text": text, "runs": runs, "follow": "yours"}


def _early() -> dict[str, Any]:
    text = (
        "A wheel that rounds a deadline down, and fires a slot as it begins, is early by up to a tick, as "
        "Kafka's purgatory is. Rounded up, the same ring is late by less than a tick, and never early."
    )
    operations = [_set(0.0, "lease a", 2.9), _set(0.5, "lease b", 4.3), _set(1.2, "lease c", 4.75)]
    wheels: Wheels = {"rounded down": EarlyWheel(tick=1, slots=8), "rounded up": SingleWheel(tick=1, slots=8)}
    return _scene("early", "Fires too early", text, operations, wheels)


def _lost_move() -> dict[str, Any]:
    text = (
        "go-zero compares the slots' raw numbers when a timer is moved. This one is behind the seam of the ring, in "
        "slot 2; it is moved to slot 7, which comes first, but 7 is more than 2, so it fires a turn late."
    )
    operations = [_set(0, "clock", 6), _set(6, "retry", 4), _set(6, "retry", 1)]
    wheels: Wheels = {"slot numbers": RawSlotWheel(tick=1, slots=8), "distances": SingleWheel(tick=1, slots=8)}
    return _scene("lost-move", "Loses a move", text, operations, wheels)


def _coarse_tick() -> dict[str, Any]:
    text = (
        "skynet's wheel has a tick of 10 ms, and nothing can be distinguished inside one: timeouts of 1 and 9 ms fire "
        "together. The native wheel files coarsely as well, but fires each at its own nanosecond."
    )
    delays = (0.001, 0.004, 0.009, 0.012, 0.018)
    operations = [_set(0, f"{delay * 1000:g} ms", delay) for delay in delays]
    wheels: Wheels = {"tick of 10 ms": CascadingWheel(tick=0.01), "native": NativeWheel()}
    return _scene("coarse-tick", "Fires by the tick", text, operations, wheels)


def _burst() -> dict[str, Any]:
    text = (
        "Sixty timers are in one slot of the coarsest wheel. When it begins, all of them are filed again at once, and "
        "the caller waits for it; then again, a wheel below."
    )
    operations = [_set(0, f"job {number}", 65 + number * 0.25) for number in range(60)]
    wheels: Wheels = {"hierarchical": HierarchicalWheel(tick=1, slots=8), "native": NativeWheel()}
    scene = _scene("burst", "Cascades in a burst", text, operations, wheels)
    steps = scene["runs"][0]["films"][0]["steps"]
    burst = next(number for number, step in enumerate(steps) if step["k"] == "cascade")
    return {**scene, "opens_at": burst - LEAD_IN}


def _scene(name: str, title: str, text: str, operations: Sequence[TraceOperation], wheels: Wheels) -> dict[str, Any]:
    return {"id": name, "title": title, "text": text, "runs": [{"label": "", "films": _films(operations, wheels)}]}


def _films(operations: Sequence[TraceOperation], wheels: Wheels) -> list[dict[str, Any]]:
    return [{"name": name, **Recorder(wheel, STEPS).play(operations)} for name, wheel in wheels.items()]


def _set(at_s: float, key: str, delay_s: float) -> TraceOperation:
    return TraceOperation(round(at_s * SECOND), "S", key, round(delay_s * SECOND))
