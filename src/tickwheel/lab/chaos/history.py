"""
A history of writes, answers, deliveries and faults. Times are wall-clock times in milliseconds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Self

__all__ = ["Delivery", "Fault", "History", "Outcome", "Write"]


class Outcome(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    """The job was running, or did not exist."""
    UNKNOWN = "unknown"
    """No answer or an ambiguous answer came, so the write may have been done."""


@dataclass(frozen=True, slots=True)
class Write:
    """
    One request that set, moved or cancelled a job. Writes of a key do not overlap.

    *began_at* is the time of the request, and *ended_at* the time of its answer or timeout. *generation* and *due_at*
    are the acknowledged values.
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

    *key*, *generation* and *attempt* come from the fire id, and *due_at* from the message. *arrived_at* is the time of
    the message's first byte. *is_accepted* is True if the target acknowledged the message.
    """

    key: str
    generation: int
    attempt: int
    due_at: float
    arrived_at: float
    is_accepted: bool


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    began_at: float
    ended_at: float


@dataclass(slots=True)
class History:
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
