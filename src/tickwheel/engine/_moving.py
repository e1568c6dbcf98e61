"""
The lanes that are known to go on: a worker asked for their jobs lately, or their last attempt ended soon.

All other lanes are still: nothing is known of them yet, or they hang, or no worker pulls from them. A hundred thousand
lanes with one job each may be still for one reason, and none of them is ever full. So the still lanes of one target
share memory and places as if they were one lane, and leave room for the moving ones and for other targets.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MovingLanes"]

_QUICK_MAX: Final = 1_000
"""Maximum number of remembered lanes whose last attempt ended soon; the oldest are forgotten."""
_ASKED_MAX: Final = 4_000
"""Maximum number of remembered lanes that workers asked for; at most 1,000 workers wait."""
_ASKED_MS: Final = 60_000
"""Time for which a lane is remembered after a worker asked for its jobs."""


class MovingLanes:
    """
    Remembers lanes by their names. Its caller holds a lock, except for reading the sets.
    """

    def __init__(self) -> None:
        self._quick: dict[str, None] = {}
        self._asked: dict[str, float] = {}
        self._quick_names: frozenset[str] | None = frozenset()
        self._asked_names: frozenset[str] | None = frozenset()

    @property
    def quick(self) -> frozenset[str]:
        """
        The lanes whose last attempt ended soon after its start. Not changed while the set stays the same.
        """
        names = self._quick_names
        if names is None:
            names = self._quick_names = frozenset(self._quick)
        return names

    @property
    def asked(self) -> frozenset[str]:
        """
        The lanes that workers asked for.
        """
        names = self._asked_names
        if names is None:
            names = self._asked_names = frozenset(self._asked)
        return names

    def has(self, lane: str) -> bool:
        return lane in self._quick or lane in self._asked

    def ended(self, lane: str, *, was_quick: bool) -> list[str]:
        """
        Note the end of an attempt of *lane*; return the lanes that are forgotten.
        """
        if was_quick is (lane in self._quick):
            return []
        self._quick_names = None
        if not was_quick:
            del self._quick[lane]
            return [lane]
        self._quick[lane] = None
        return self._shorten(self._quick, _QUICK_MAX)

    def ask(self, lane: str, now: float) -> list[str]:
        """
        Note that a worker asks for jobs of *lane* at *now* (ms); return the lanes that are forgotten.
        """
        if self._asked.pop(lane, None) is None:
            self._asked_names = None
        self._asked[lane] = now
        return self._shorten(self._asked, _ASKED_MAX)

    def old(self, now: float) -> list[str]:
        """
        Return the lanes that no worker has asked for lately: they are to be asked for again, or forgotten.
        """
        return [lane for lane, at in self._asked.items() if now - at > _ASKED_MS]

    def forget(self, lane: str) -> None:
        del self._asked[lane]
        self._asked_names = None

    @staticmethod
    def _shorten(names: dict[str, None] | dict[str, float], most: int) -> list[str]:
        gone = []
        while len(names) > most:
            gone.append(next(iter(names)))
            del names[gone[-1]]
        return gone
