"""
A history: writes, answers, deliveries and faults; times are wall time in milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

__all__ = ["Delivery", "Fault", "History", "Outcome", "Write"]


class Outcome(StrEnum):
    """
    The outcome of a write, as far as its sender knows it.
    """

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """The job was running, or there was none."""
    UNKNOWN = "unknown"
    """No answer came, or one that does not say: it may have been done."""


@dataclass(frozen=True, slots=True)
class Write:
    """
    One request that set, moved or cancelled a job.

    Attributes:
        key: Of the job; no two writes of a key are under way at once.
        verb: set, move or cancel.
        began_at, ended_at: When it was sent, and when its answer came or was given up.
        outcome: See there.
        generation, due_at: Of the job, as acknowledged.
    """

    key: str
    verb: str
    began_at: float
    ended_at: float
    outcome: Outcome
    generation: int = 0
    due_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    One arrival at the target.

    Attributes:
        key, generation, attempt: Of the fire id.
        due_at: As the message says.
        arrived_at: When its first byte came.
        is_accepted: Whether the target said that it took it.
    """

    key: str
    generation: int
    attempt: int
    due_at: float
    arrived_at: float
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """
    The time of one fault, from its beginning until everything was well again.
    """

    kind: str
    began_at: float
    ended_at: float


@dataclass(slots=True)
class History:
    """
    All of a run, in the order of its happening.
    """

    writes: list[Write] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        document = json.loads(text)
        return cls(
            [Write(**{**write, "outcome": Outcome(write["outcome"])}) for write in document["writes"]],
            [Delivery(**delivery) for delivery in document["deliveries"]],
            [Fault(**fault) for fault in document["faults"]],
        )
