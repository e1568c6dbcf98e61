"""
The progress of staging a shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tickwheel.jobs.model import Job

__all__ = ["Position", "ShardProgress", "position_of"]

Position: TypeAlias = tuple[int, int]
"""An instant and a generation, by which pending jobs are in order."""


@dataclass(slots=True, eq=False)
class ShardProgress:
    """
    The progress of staging one shard.

    Attributes:
        epoch: Of its lease.
        cursor: The position up to which every pending job is staged, or was.
        mark: Up to where the changes of others were read.
        checked: Up to where instants were checked since the clock was set, or None if all were.
    """

    epoch: int
    cursor: Position = (0, 0)
    mark: int | None = None
    checked: Position | None = None


def position_of(job: Job) -> Position:
    """
    Return the position of *job* among what is pending.
    """
    return job.due_at, job.generation
