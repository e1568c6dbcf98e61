"""
The definition of a recurring job: the fields that callers set. Comparisons ignore the state in the field `series`.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from typing import NamedTuple

from tickwheel.jobs.model import STOPPED, Job, RetryPolicy
from tickwheel.jobs.recurrence import Recurrence

__all__ = ["Definition"]


class Definition(NamedTuple):
    series: Recurrence
    payload: bytes
    target: str
    handler: str
    retry: RetryPolicy
    expires_ms: int | None
    has_phase: bool = False

    @classmethod
    def of(cls, job: Job, *, has_phase: bool = False) -> Definition:
        series = Recurrence.from_text(job.recurrence or "")
        length = series.expires_ms
        if length is None and job.expires_at not in (None, STOPPED):
            length = job.expires_at - job.due_at
        return cls(series, job.payload, job.target, job.handler, job.retry, length, has_phase)

    @classmethod
    def at_last(cls, job: Job) -> Definition:
        now = cls.of(job)
        return now if now.series.then is None else cls.from_text(now.series.then)

    @classmethod
    def from_text(cls, text: str) -> Definition:
        series, payload, target, handler, retry, length, has_phase = json.loads(text)
        attempts, kind, base_ms, max_ms, jitter, waits_ms = retry
        policy = RetryPolicy(attempts, kind, base_ms, max_ms, jitter, tuple(waits_ms))
        return cls(Recurrence.from_text(series), payload.encode(), target, handler, policy, length, has_phase)

    def to_text(self) -> str:
        rule = self.series.to_text()
        parts = (rule, self.payload.decode(), self.target, self.handler, astuple(self.retry))
        return json.dumps((*parts, self.expires_ms, self.has_phase), separators=(",", ":"))

    def is_like(self, other: Definition) -> bool:
        mine, wanted = self[2:6], other[2:6]
        is_same = mine == wanted and self.series.is_like(other.series, has_phase=other.has_phase)
        return is_same and _is_same_json(self.payload, other.payload)


def _is_same_json(first: bytes, second: bytes) -> bool:
    if first == second:
        return True
    try:
        texts = [json.dumps(json.loads(each), sort_keys=True) for each in (first, second)]
    except (ValueError, RecursionError):
        return False
    return texts[0] == texts[1]
