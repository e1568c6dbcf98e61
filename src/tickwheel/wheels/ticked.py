"""
Internal: the base of the designs with a tick.

    deadline     0        1..tick      tick+1..2 tick        an entry expires at the end of its tick,
    tick         0            1              2     ...       which is never before its deadline
    expires at   0         tick         2 tick     ...

The pointer is the last tick whose slot has been emptied. The due entries, up to the pointer, are in one sorted list,
`_run`; the later entries are in the slots; entries that are never due have their own list. A limit of `advance` may
leave due entries in `_run`. They are delivered before any entry of the slots.

A design consists of its `Slots`, which decide where an entry waits and which entries expire next. Empty slots are
skipped, so ticks cost nothing: `next_expiration` returns the next time to call, or None for an idle wheel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from tickwheel.clock import to_deadline
from tickwheel.errors import SpanExceededError
from tickwheel.typing import Seconds
from tickwheel.wheels._base import BaseWheel
from tickwheel.wheels._due import DueRun
from tickwheel.wheels._ring import Ring
from tickwheel.wheels.contract import NEVER, Abilities, Expired, checked_count, checked_deadline, checked_limit
from tickwheel.wheels.view import RingView

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tickwheel.wheels.entry import Entry, Place

__all__ = ["Slots", "TickedWheel", "checked_slots", "checked_tick"]


class Slots(Protocol):
    """
    The slots of a design, which hold the entries whose tick is after the pointer.

    *pointer* is the last tick that was emptied; `step` moves it forward only. *cascades* is the number of times an
    entry was filed again in a finer ring.
    """

    pointer: int
    cascades: int

    @property
    def turn(self) -> int | None:
        """
        Return the maximum distance, in ticks, from the pointer to an entry in the slots, or None for no limit.
        """

    def add(self, entry: Entry) -> None:
        """
        File *entry*. Its tick must be 1 to `turn` ticks after the pointer.
        """

    def step(self, reached: int) -> Collection[Entry]:
        """
        Move the pointer to the next tick up to *reached* that has entries, and remove and return these entries.

        If no tick has entries, move the pointer to *reached* and return an empty collection.
        """

    def first(self) -> int | None: ...

    def places(self) -> Iterable[Place]: ...

    def views(self, tick_ns: int) -> Sequence[RingView]: ...

    def where(self, entry: Entry) -> tuple[int, int]: ...

    def check(self) -> None: ...


def checked_tick(tick: Seconds) -> int:
    tick_ns = to_deadline(tick, "tick")
    if tick_ns == 0 or tick_ns >= NEVER:
        message = f"tick is {tick!r}: pass a positive, finite number of seconds, below 292 years"
        raise ValueError(message)
    return tick_ns


def checked_slots(slots: object) -> int:
    """
    Return *slots* if it is at least 2. A ring of one slot cannot distinguish one tick from the next.
    """
    return checked_count(slots, "slots", 2)


class TickedWheel(BaseWheel):
    """
    A wheel with ticks of *tick* seconds. Its *slots*, which define the design, contain the pending entries.
    """

    def __init__(self, tick: Seconds, slots: Slots) -> None:
        super().__init__()
        self._tick_ns = checked_tick(tick)
        # A delay that starts late in a tick also ends late in a tick, so the span is one tick less than a turn.
        span_ns = None if slots.turn is None else min((slots.turn - 1) * self._tick_ns, NEVER)
        self.abilities = Abilities(tick_ns=self._tick_ns, exact_order=True, span_ns=span_ns)
        self._slots = slots
        self._run = DueRun()
        self._parked = Ring(1)
        self._latest = 0
        self._known_next: int | None = None  # the earliest tick in the slots
        self._is_next_known = True

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        reached = self._ended(checked_deadline(now, "now"))
        limit = checked_limit(limit)
        self._latest = max(self._latest, now)
        until = min(reached * self._tick_ns, now)
        expired: list[Expired] = []
        while True:
            left = None if limit is None else limit - len(expired)
            expired += map(self._expire, self._run.take_until(until, left))
            # The pointer moves on unless a limit has left entries in the run.
            if self._run or not self._step(reached):
                return expired

    def next_expiration(self) -> int | None:
        first = self._run.first()
        if first is not None:
            return self.abilities.due_at(first.deadline)
        if not self._is_next_known:
            self._known_next, self._is_next_known = self._slots.first(), True
        return None if self._known_next is None else min(self._known_next * self._tick_ns, NEVER)

    def stats(self) -> dict[str, Any]:
        return {**super().stats(), "cascades": self._slots.cascades}

    def rings(self) -> list[RingView]:
        """
        Return the due entries, and the rings of the design.
        """
        due = {0: len(self._run)} if self._run else {}
        return [RingView("due", 1, 0, None, due), *self._slots.views(self._tick_ns)]

    def check(self) -> None:
        self._check_counts()
        self._run.check()
        self._parked.check()
        places: list[Place] = [self._run, self._parked, *self._slots.places()]
        assert sum(map(len, places)) == len(self)
        assert all(self._entries[entry.id] is entry for place in places for entry in place)
        assert all(entry.deadline == NEVER for entry in self._parked)
        assert all(entry.tick <= self._slots.pointer for entry in self._run)
        filed = [entry for place in self._slots.places() for entry in place]
        assert all(entry.tick == self._tick_of(entry.deadline) > self._slots.pointer for entry in filed)
        assert not self._is_next_known or self._known_next == min((entry.tick for entry in filed), default=None)
        self._slots.check()

    def _tick_of(self, deadline: int) -> int:
        # An entry expires at the end of its tick, so the tick is rounded up: it is never early.
        return -(-deadline // self._tick_ns)

    def _ended(self, now: int) -> int:
        # Return the last tick that has ended, rounded down. The very last tick ends at NEVER, although it is shorter.
        return self._tick_of(now) if now == NEVER else now // self._tick_ns

    def _admit(self, deadline: int) -> None:
        span_ns = self.abilities.span_ns
        if span_ns is not None and deadline != NEVER and deadline - self._latest > span_ns:
            raise SpanExceededError(deadline - self._latest, span_ns)

    def _file(self, entry: Entry) -> None:
        if entry.deadline == NEVER:
            self._parked.add(entry, 0)
            return
        entry.tick = self._tick_of(entry.deadline)
        if self._slots.turn is not None:
            # If a limit has held the pointer back, the slot may still have entries of the last turn: empty it first.
            while self._step(entry.tick - self._slots.turn):
                pass
        if entry.tick <= self._slots.pointer:
            self._run.add(entry)
            return
        self._slots.add(entry)
        if self._is_next_known and (self._known_next is None or entry.tick < self._known_next):
            self._known_next = entry.tick

    def _unfile(self, entry: Entry) -> None:
        super()._unfile(entry)
        if entry.tick == self._known_next:
            self._is_next_known = False

    def _where(self, entry: Entry) -> tuple[int, int] | None:
        if entry.deadline == NEVER:
            return None
        if entry.place is self._run:
            return 0, 0
        ring, slot = self._slots.where(entry)
        return ring + 1, slot

    def _clear(self) -> None:
        places: list[Place] = [self._run, self._parked, *self._slots.places()]
        for place in places:
            place.clear()
        self._known_next, self._is_next_known = None, True

    def _step(self, reached: int) -> bool:
        # Entries move from the slots to the run, which keeps the order; if none moved, the earliest tick stays.
        if reached <= self._slots.pointer:
            return False
        entries = self._slots.step(reached)
        if entries:
            self._run.extend(entries)
            self._is_next_known = False
        return bool(entries)
