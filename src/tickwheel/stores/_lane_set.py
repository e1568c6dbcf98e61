"""
A set of lanes, by their names or by their targets.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tickwheel.jobs.lane import lane_of

__all__ = ["LaneSet"]


@dataclass(frozen=True, slots=True)
class LaneSet:
    """
    The lanes named in *names*, and all lanes of *targets* except *others*.

    So a hundred thousand lanes of one target are a short argument.

    Attributes:
        names: Names of lanes, see `lane_of`.
        targets: Targets all of whose lanes are in the set.
        others: Lanes of *targets* that are in the set only if *names* has them.
    """

    names: Collection[str] = ()
    targets: Collection[str] = ()
    others: Collection[str] = ()

    def has(self, target: str, handler: str) -> bool:
        """
        Return True if the jobs of *target* and *handler* are of one of these lanes.
        """
        lane = lane_of(target, handler)
        return lane in self.names or (target in self.targets and lane not in self.others)
