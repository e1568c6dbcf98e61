"""
The progress of staging a shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tickwheel.jobs.model import Job

__all__ = ["START", "Position", "ShardProgress", "before", "position_of"]

Position: TypeAlias = tuple[int, int]
"""An instant and a generation, by which pending jobs are in order."""

START: Final[Position] = (0, 0)
"""Before all jobs."""


@dataclass(slots=True, eq=False)
class ShardProgress:
    """
    The progress of staging one shard.

    Attributes:
        epoch: Of its lease.
        cursor: The position up to which every pending job is staged, or was.
        mark: Up to where the changes of others were read.
        checked: Up to where instants were checked since the clock was set, or None if all were.
        lanes: The cursors of the lanes that are read on their own; `cursor` is that of all others.
        reached: During a look, the position up to which it has read; `cursor` is at its end from the beginning.
    """

    epoch: int
    cursor: Position = (0, 0)
    mark: int | None = None
    checked: Position | None = None
    lanes: dict[str, Position] = field(default_factory=dict)
    reached: Position | None = None

    def start_over(self) -> None:
        self.cursor = START
        self.lanes = dict.fromkeys(self.lanes, START)

    def part(self, lane: str) -> None:
        self.lanes[lane] = self.cursor if self.reached is None else min(self.cursor, self.reached)

    def join(self, lane: str) -> None:
        self.cursor = min(self.cursor, self.lanes.pop(lane, START))

    def holds(self, position: Position, lane: str | None) -> bool:
        """
        Return whether a job of *lane* at *position* was met; None means any lane that is not read on its own.
        """
        cursor = self.cursor if lane is None else self.lanes.get(lane, START)
        return position <= cursor

    def set_back(self, position: Position, lane: str | None) -> None:
        if lane is None:
            self.cursor = min(self.cursor, before(position))
        else:
            self.lanes[lane] = min(self.lanes.get(lane, START), before(position))


def before(position: Position) -> Position:
    """
    Return the position just before another one.
    """
    return position[0], position[1] - 1


def position_of(job: Job) -> Position:
    return job.due_at, job.generation
