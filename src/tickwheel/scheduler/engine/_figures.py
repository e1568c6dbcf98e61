"""
Counters, of all firings and by target, and the distribution of lateness.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tickwheel.scheduler._distribution import Distribution
from tickwheel.scheduler.engine._staged_job import StagedJob
from tickwheel.scheduler.engine._verdict import Ending, Verdict
from tickwheel.scheduler.engine.recent import Recent
from tickwheel.scheduler.model import Answer, Outcome

__all__ = ["Figures"]

_COUNTED_AS: Final = {
    Ending.SUCCEEDED: "succeeded",
    Ending.RETRIED: "retried",
    Ending.SNOOZED: "snoozed",
    Ending.DIED: "dead_total",
    Ending.EXPIRED: "expired",
    Ending.GIVEN_BACK: "given_back",
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

    def settled(self, batch: Sequence[tuple[StagedJob, Verdict]], answers: Sequence[Answer]) -> bool:
        """
        Count a settled *batch*, and return whether there is anything in it but routine.
        """
        fired, has_trouble = 0, False
        counts, late, note = self.counts, self.lateness.add, self.recent.add
        endings: defaultdict[tuple[str, Ending], int] = defaultdict(int)
        for (entry, verdict), answer in zip(batch, answers, strict=True):
            ending = verdict.ending
            if entry.fired_at:
                fired += 1
                late(entry.fired_at - entry.job.due_at)
                note(entry, verdict, answer)
            if answer.outcome is not Outcome.SETTLED:
                counts["refused"] += 1
                has_trouble = True
                continue
            endings[entry.job.target, ending] += 1
            if ending is Ending.RETRIED or ending is Ending.DIED:
                has_trouble = True
                counts["failed"] += ending is Ending.RETRIED or bool(entry.fired_at)
        counts["fired"] += fired
        for (target, ending), count in endings.items():
            name = _COUNTED_AS[ending]
            counts[name] += count
            of_target = self.by_target.get(target)
            if of_target is None:
                of_target = self.by_target[target] = dict.fromkeys(_COUNTED_AS.values(), 0)
            of_target[name] += count
        return has_trouble
