"""
Overlapping runs: the same generation of a job runs on two nodes at once, or twice on one.

An overlap is excused if the first node died, was stopped, or could not keep its lease because of a fault.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from simulation.history import Fault, Fired

__all__ = ["Beside"]

# A lease lasts 60 s and is renewed every 20 s.
_AFTER_NS: Final = 85 * 10**9
"""
Time for which a fault may still cost a lease or delay a write.
"""
_EVERYWHERE: Final = ("the", "failover", "emptied", "after")


class Beside:
    """
    The attempts that are running after the latest event.
    """

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], Fired] = {}
        self._broken: defaultdict[str, set[str]] = defaultdict(set)
        self._broken_at: defaultdict[str, int] = defaultdict(lambda: -_AFTER_NS)

    def begun(self, event: Fired) -> str | None:
        """
        Record a start. If this is an overlap without an excuse, return the other node, and otherwise None.
        """
        life = (event.key, event.generation)
        former = self._running.get(life)
        self._running[life] = event
        if former is None or self._is_excused(former):
            return None
        return former.machine

    def ended(self, key: str, generation: int) -> None:
        """
        Record that the end of an attempt has been written.
        """
        self._running.pop((key, generation), None)

    def broken(self, event: Fault) -> None:
        """
        Record that a fault has begun or ended.
        """
        what, _, node = event.what.partition(" ")
        if what == "step":
            if event.server_step_ns > 0:
                self._broken_at[""] = event.at
            return
        node = "" if what in _EVERYWHERE else node.partition(" ")[0]
        self._broken_at[node] = event.at
        if event.is_over:
            self._broken[node].discard(what)
        elif node:
            self._broken[node].add(what)

    def _is_excused(self, former: Fired) -> bool:
        node = former.machine.partition(".")[0]
        if self._broken[node]:
            return True
        return max(self._broken_at[node], self._broken_at[""]) + _AFTER_NS >= former.at
