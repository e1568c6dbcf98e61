"""
One ring, many turns: each entry stores the round in which it is due.

With `tick=1, slots=8`, at the end of tick 10, which is in round 1:

    slot       0     1     2     3     4     5     6     7
    tick      16    17    18    11    12    13    14    15       slot  = tick mod 8
              24    25    26    19    20    21    22    23       round = tick div 8
              ...                ^ next: 11 (round 1) is due there, 19 (round 2) and 27 (round 3) stay

| operation         | cost             | why                                                               |
|-------------------|------------------|-------------------------------------------------------------------|
| `insert`          | O(1)             | one division                                                      |
| `cancel`, move    | O(1)             | any entry can be removed from its slot                            |
| `advance`         | O(n / slots)     | for each tick at which an entry expires: reads the whole slot     |
| `next_expiration` | O(n / slots)     | for each slot up to an entry that is due in this turn; O(n) if    |
|                   |                  | all entries are due in later turns                                |

Any delay fits, but an entry with a long delay costs time in every turn. Make the ring longer than common delays.

The originals (Netty's `HashedWheelTimer`, go-zero's "circle") store a countdown of rounds in each entry, and lower it
at every pass. So they must visit every tick, even in an idle wheel. Here an entry stores the absolute number of its
round, so nothing is counted down, and empty ticks need no visit. (When go-zero moves a timer, it compares slot numbers
instead of distances from the pointer, so a quarter of the moved timers fire in the wrong turn.)

The source: G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme 6.

    >>> wheel = RoundsWheel(tick=1, slots=8)
    >>> second = 1_000_000_000
    >>> for tick in (3, 11, 19):
    ...     _ = wheel.insert(tick * second, f"tick {tick}")
    >>> [entry.payload for entry in wheel.advance(12 * second)]
    ['tick 3', 'tick 11']
    >>> wheel.next_expiration() // second
    19
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tickwheel.typing import Seconds
from tickwheel.wheels.card import HANDFUL, SLOTS_MAX, Card, Geometry, Load, in_words, round_tick, suitable_tick
from tickwheel.wheels.single import OneTurn
from tickwheel.wheels.ticked import TickedWheel, checked_slots

if TYPE_CHECKING:
    from tickwheel.wheels.entry import Entry

__all__ = ["RoundsWheel"]


class RoundsWheel(TickedWheel):
    """
    One ring of *slots* slots (at least 2), each of *tick* seconds. A long delay takes several turns of the ring.

    An entry expires up to one tick late.
    """

    def __init__(self, tick: Seconds = 0.1, slots: int = 512) -> None:
        super().__init__(tick, Rounds(checked_slots(slots)))


class Rounds(OneTurn):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.turn = None

    def step(self, reached: int) -> list[Entry]:
        """
        Move to the next tick that has entries, and return these entries. Entries of later rounds stay.
        """
        tick = self.first()
        self.pointer = reached if tick is None else min(tick, reached)
        slot = self._ring.slot(self.pointer % self._ring.size)
        due = [entry for entry in slot.values() if entry.tick == self.pointer]
        for entry in due:
            self._ring.discard(entry)
        return due

    def first(self) -> int | None:
        """
        Return the earliest tick. The search is short if some entry is due within the current turn.
        """
        earliest = None
        for distance in self._ring.occupied_after(self.pointer % self._ring.size):
            tick = self.pointer + distance
            first = min(entry.tick for entry in self._ring.slot(tick % self._ring.size).values())
            if first == tick:
                return first  # due in this round, so no other entry is earlier
            if earliest is None or first < earliest:
                earliest = first
        return earliest


def _advise(load: Load) -> Geometry:
    tick_us, because = suitable_tick(load)
    wanted = max(load.ninetieth_us / tick_us, load.peak_pending / HANDFUL, 64)
    slots = min(1 << max(math.ceil(wanted) - 1, 1).bit_length(), SLOTS_MAX)
    turn_us = slots * tick_us
    covers = (
        f"a turn of {slots} slots is {in_words(turn_us)}; nine delays in ten are below {in_words(load.ninetieth_us)}"
    )
    rounds = load.longest_us / turn_us
    far = "every delay is due in its first round" if rounds <= 1 else f"the longest waits {rounds:.0f} rounds"
    return Geometry({"tick": tick_us / 1e6, "slots": slots}, (because, covers, far))


def _shown(load: Load) -> Mapping[str, float]:
    return {"tick": round_tick(load.median_us / 40) / 1e6, "slots": 32}


CARD = Card(
    "rounds",
    RoundsWheel,
    "#cc79a7",
    "the scan: what is due in a later round is read again and again",
    ("beat",),
    _advise,
    _shown,
    options=("tick", "slots"),
    compared={"tick": 0.001, "slots": 512},
    trials=({"tick": 1e-9, "slots": 64}, {"tick": 0.001, "slots": 512}, {"tick": 1e-7, "slots": 3}),
    is_ticked=True,
)
