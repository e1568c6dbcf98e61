from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, NamedTuple

from tickwheel.wheels.contract import NEVER

if TYPE_CHECKING:
    from tickwheel.wheels.contract import Abilities

__all__ = ["WheelModel"]


class _Filed(NamedTuple):
    deadline: int
    arrival: int
    payload: int


class WheelModel:
    """
    A model of a wheel, made of a dict and a heap. A removed entry stays in the heap until it is on top.
    """

    def __init__(self, abilities: Abilities) -> None:
        self.abilities = abilities
        self.latest = 0
        self.pending: dict[int, _Filed] = {}
        self._heap: list[tuple[int, int, int]] = []
        self._arrivals = 0
        self.counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0}

    def admits(self, deadline: int) -> bool:
        span_ns = self.abilities.span_ns
        return span_ns is None or deadline == NEVER or deadline - self.latest <= span_ns

    def insert(self, id: int, deadline: int, payload: int) -> None:
        self._file(id, deadline, payload)
        self.counts["sets"] += 1

    def cancel(self, id: int) -> bool:
        was_pending = self.pending.pop(id, None) is not None
        self.counts["cancels"] += was_pending
        return was_pending

    def reschedule(self, id: int, deadline: int) -> bool:
        filed = self.pending.get(id)
        if filed is not None:
            self._file(id, deadline, filed.payload)
            self.counts["moves"] += 1
        return filed is not None

    def deadline(self, id: int) -> int | None:
        filed = self.pending.get(id)
        return None if filed is None else filed.deadline

    def advance(self, now: int, limit: int | None) -> list[tuple[int, int, int]]:
        self.latest = max(self.latest, now)
        expired: list[tuple[int, int, int]] = []
        while len(expired) != limit and (due_at := self.next_expiration()) is not None and due_at <= now:
            id = heapq.heappop(self._heap)[2]  # noqa: A001 the protocol's word
            filed = self.pending.pop(id)
            expired.append((id, filed.deadline, filed.payload))
        self.counts["fires"] += len(expired)
        return expired

    def next_expiration(self) -> int | None:
        heap = self._heap
        while heap:
            _, arrival, id = heap[0]  # noqa: A001 the protocol's word
            filed = self.pending.get(id)
            if filed is not None and filed.arrival == arrival:
                return self.abilities.due_at(filed.deadline)
            heapq.heappop(heap)
        return None

    def drain(self) -> list[tuple[int, int, int]]:
        everything = sorted(self.pending.items(), key=lambda item: item[1])
        self.counts["cancels"] += len(everything)
        self.pending.clear()
        self._heap.clear()
        return [(id, filed.deadline, filed.payload) for id, filed in everything]  # noqa: A001 the protocol's word

    def _file(self, id: int, deadline: int, payload: int) -> None:
        self._arrivals += 1
        self.pending[id] = _Filed(deadline, self._arrivals, payload)
        due_at = self.abilities.due_at(deadline)
        key = deadline if self.abilities.exact_order or due_at is None else due_at
        heapq.heappush(self._heap, (key, self._arrivals, id))
        if len(self._heap) > 4 * len(self.pending) + 64:
            kept = [item for item in self._heap if self._is_current(item)]
            heapq.heapify(kept)
            self._heap = kept

    def _is_current(self, item: tuple[int, int, int]) -> bool:
        filed = self.pending.get(item[2])
        return filed is not None and filed.arrival == item[1]
