"""
A worker's lease of a queue: one firing, for a time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tickwheel.scheduler.model import Job

__all__ = ["JobLease"]


@dataclass(frozen=True, slots=True)
class JobLease:
    """
    One firing in a worker's hands.

    Attributes:
        job: The job; its `payload` is the encoded one.
        attempt: Which attempt this is, from 1.
        until: When the lease ends, in ms since the epoch by the store's clock.
    """

    job: Job
    attempt: int
    until: int

    @property
    def fire_id(self) -> str:
        """
        The name of this firing, by which it is acknowledged, and repeats are recognised.
        """
        return f"{self.job.key}/{self.job.generation}/{self.attempt}"

    @property
    def payload(self) -> Any:
        """
        The payload, decoded.
        """
        return json.loads(self.job.payload)

    @property
    def is_last_attempt(self) -> bool:
        """
        True if a failure now is final.
        """
        return self.attempt >= self.job.retry.attempts
