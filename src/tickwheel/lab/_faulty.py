"""
Two faulty versions of the ring in `wheels/single.py`. Only the lab uses them, to show the faults of real wheels.
"""

from __future__ import annotations

from tickwheel.typing import Seconds
from tickwheel.wheels import SingleWheel
from tickwheel.wheels.contract import Expired, checked_deadline
from tickwheel.wheels.entry import Entry
from tickwheel.wheels.single import OneTurn
from tickwheel.wheels.ticked import TickedWheel

__all__ = ["EarlyWheel", "RawSlotWheel"]


class EarlyWheel(SingleWheel):
    """
    Rounds a deadline down to its tick and fires the slot at the start of that tick, as Kafka's purgatory does.

    So a timer fires up to a tick before its deadline.
    """

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        del limit
        reached = checked_deadline(now, "now") // self._tick_ns
        self._latest = max(self._latest, now)
        expired: list[Expired] = []
        while self._slots.pointer < reached:
            expired += map(self._expire, self._slots.step(reached))
        self._is_next_known = False
        return expired

    def _tick_of(self, deadline: int) -> int:
        return deadline // self._tick_ns


class RawSlotWheel(SingleWheel):
    """
    Moves a timer by comparing slot numbers instead of distances from the pointer, as go-zero's `MoveTimer` does.

    So a timer that is moved to an earlier time, back across the end of the ring, fires a turn late.
    """

    def __init__(self, tick: Seconds, slots: int) -> None:
        self._turn = _RawTurn(slots)
        TickedWheel.__init__(self, tick, self._turn)

    def reschedule(self, id: int, deadline: int) -> bool:
        entry = self._entries.get(id)
        if entry is None:
            return False
        size = self._turn.turn or 1
        further = self._tick_of(checked_deadline(deadline)) % size - entry.tick % size
        if further < 0:
            return super().reschedule(id, deadline)
        self._turn.further[entry.id] = further
        entry.deadline = deadline
        self._counts["moves"] += 1
        return True

    def next_expiration(self) -> int | None:
        self._is_next_known = False  # entries that are filed again bypass `_file`
        return super().next_expiration()


class _RawTurn(OneTurn):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.further: dict[int, int] = {}

    def step(self, reached: int) -> list[Entry]:
        due = []
        for entry in super().step(reached):
            further = self.further.pop(entry.id, 0)
            entry.tick += further
            if further:
                self.add(entry)
            else:
                due.append(entry)
        return due
