from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tickwheel.jobs.lane import lane_of

__all__ = ["LaneSet"]


@dataclass(frozen=True, slots=True)
class LaneSet:
    """
    The lanes in *names*, and all lanes of *targets* except *others*.

    In this form, even a hundred thousand lanes of one target make a short argument. A lane's name is the result of
    `lane_of`. A lane in *others* is in the set only if it is also in *names*.
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
