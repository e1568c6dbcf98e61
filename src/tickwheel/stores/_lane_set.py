from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tickwheel.jobs.lane import lane_of

__all__ = ["LaneSet"]


@dataclass(frozen=True, slots=True)
class LaneSet:
    """
    A set of lanes: each lane in *names*, and each lane whose target is in *targets*, unless the lane is in *others*.

    Lanes are named by `lane_of`. A lane that is in both *names* and *others* belongs to the set.
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
