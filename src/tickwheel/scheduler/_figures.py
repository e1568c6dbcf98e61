"""
Counters, of all firings and by target, and the distribution of lateness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tickwheel.scheduler._distribution import Distribution
from tickwheel.scheduler._model import Answer, Outcome
from tickwheel.scheduler._near import Entry
from tickwheel.scheduler._recent import Recent
from tickwheel.scheduler._verdict import Kind, Verdict

__all__ = ["Figures"]

_COUNTED_AS: Final = {
    Kind.SUCCEEDED: "succeeded",
    Kind.RETRIED: "retried",
    Kind.SNOOZED: "snoozed",
    Kind.DIED: "dead_total",
    Kind.EXPIRED: "expired",
    Kind.GIVEN_BACK: "given_back",
}


class Figures:
    """
    What was done. Written on the writer's thread alone, so that no count needs a lock; read from any.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("fired", "failed", "refused", *_COUNTED_AS.values()), 0)
        self.lateness = Distribution()
        self.by_target: dict[str, dict[str, int]] = {}
        self.recent = Recent()

    def settled(self, batch: Sequence[tuple[Entry, Verdict]], answers: Sequence[Answer]) -> bool:
        """
        Count a settled *batch*, and return whether there is anything in it but routine.
        """
        has_trouble = False
        counts, late = self.counts, self.lateness.add
        for (entry, verdict), answer in zip(batch, answers, strict=True):
            if entry.fired_at:
                counts["fired"] += 1
                late(entry.fired_at - entry.job.due_at)
                self.recent.add(entry, verdict, answer)
            if answer.outcome is not Outcome.SETTLED:
                counts["refused"] += 1
                has_trouble = True
                continue
            kind = verdict.kind
            counts[_COUNTED_AS[kind]] += 1
            target = self.by_target.get(entry.job.target)
            if target is None:
                target = self.by_target[entry.job.target] = dict.fromkeys(_COUNTED_AS.values(), 0)
            target[_COUNTED_AS[kind]] += 1
            if kind is Kind.RETRIED or kind is Kind.DIED:
                has_trouble = True
                counts["failed"] += kind is Kind.RETRIED or bool(entry.fired_at)
        return has_trouble
