"""
Timing-wheel designs behind one protocol.

| design              | structure                                           | also used by                  |
|---------------------|-----------------------------------------------------|-------------------------------|
| `NativeWheel`       | hierarchical, in Rust, exact deadlines; the default |                               |
| `HeapWheel`         | a binary heap with positions, exact deadlines       | asyncio, Go, `DelayQueue`     |
| `SingleWheel`       | one ring; refuses delays past its span              | idle timeouts of servers      |
| `RoundsWheel`       | one ring; a long delay waits several turns          | Netty, go-zero                |
| `HierarchicalWheel` | rings of growing size, made on demand               | Kafka, RussellLuo/timingwheel |
| `CascadingWheel`    | 256 near slots and four rings of 64                 | skynet, older Linux           |
| `CalendarWheel`     | one ring that adapts its slots to the timers        | discrete-event simulators     |

`Wheel` is the protocol; its module lists the guarantees. `DelayQueue` is a blocking queue over the heap. `CARDS` has a
description of each design: its options, the load at which it breaks down, and the geometry that suits a load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tickwheel._later import later
from tickwheel.wheels.contract import NEVER, Abilities, Expired, Wheel

MODULES: Final = {
    "native": "NativeWheel",
    "heap": "HeapWheel",
    "single": "SingleWheel",
    "rounds": "RoundsWheel",
    "hierarchical": "HierarchicalWheel",
    "cascading": "CascadingWheel",
    "calendar_queue": "CalendarWheel",
}
"""The module and the class of each design. `CARDS` collects their cards in this order."""

if TYPE_CHECKING:
    from tickwheel.wheels._cards import CARDS
    from tickwheel.wheels.calendar_queue import CalendarWheel
    from tickwheel.wheels.cascading import CascadingWheel
    from tickwheel.wheels.delay_queue import DelayQueue
    from tickwheel.wheels.heap import HeapWheel
    from tickwheel.wheels.hierarchical import HierarchicalWheel
    from tickwheel.wheels.native import NativeWheel
    from tickwheel.wheels.rounds import RoundsWheel
    from tickwheel.wheels.single import SingleWheel
else:  # imported on demand, because timers need only the protocol
    __getattr__, __dir__ = later(
        __name__,
        {
            **{f"{__name__}.{module}": [design] for module, design in MODULES.items()},
            "tickwheel.wheels._cards": ["CARDS"],
            "tickwheel.wheels.delay_queue": ["DelayQueue"],
        },
    )

__all__ = [
    "CARDS",
    "NEVER",
    "Abilities",
    "CalendarWheel",
    "CascadingWheel",
    "DelayQueue",
    "Expired",
    "HeapWheel",
    "HierarchicalWheel",
    "NativeWheel",
    "RoundsWheel",
    "SingleWheel",
    "Wheel",
]
