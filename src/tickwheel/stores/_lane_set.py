"""
A set of lanes, given by names or by targets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tickwheel.jobs.lane import lane_of

__all__ = ["LaneSet"]


@dataclass(frozen=True, slots=True)
class LaneSet:
    """
    The lanes in *names*, and all lanes of *targets* except *others*.

    Even a hundred thousand lanes of one target make a short argument of a statement.

    Attributes:
        names: Names of lanes; see `lane_of`.
        targets: Targets whose lanes are all in the set, except *others*.
        others: Lanes of *targets* that are in the set only if *names* contains them.
    """

    names: Collection[str] = ()
    targets: Collection[str] = ()
    others: Collection[str] = ()

    def has(self, target: str, handler: str) -> bool:
        """
        Return True if the lane of *target* and *handler* is in the set.
        """
        lane = lane_of(target, handler)
        return lane in self.names or (target in self.targets and lane not in self.others)
