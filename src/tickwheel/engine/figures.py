"""
Counters of firings (in total, and by target and handler), the distribution of lateness, and the last firings.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from tickwheel.engine._records import LaneCounts
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending, Verdict, is_refused
from tickwheel.host.distribution import Distribution
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.jobs.model import Answer, Outcome
from tickwheel.observe.tracing import Span

__all__ = ["Figures", "Recent", "Remembered"]

Remembered: TypeAlias = tuple[StagedJob, str, str | None]
"""A finished attempt, its outcome, and its error."""

_SIZE: Final = 500
_Fields: TypeAlias = tuple[int, str, int, int, str, str, int, float, str, str | None, float | None]


class Recent:
    def __init__(self) -> None:
        self.number = 0
        self._ring: deque[_Fields] = deque(maxlen=_SIZE)

    def add(self, ended: Sequence[Remembered]) -> None:
        self.number += len(ended)
        ended = ended[-_SIZE:]  # earlier ones would leave the ring at once
        first = self.number - len(ended) + 1
        self._ring.extend(
            [
                (
                    number,
                    (job := entry.job).key,
                    job.generation,
                    job.attempt + 1,
                    job.target,
                    job.handler,
                    job.due_at,
                    entry.fired_at,
                    outcome,
                    error,
                    entry.ran_ms or None,
                )
                for number, (entry, outcome, error) in enumerate(ended, first)
            ]
        )

    def after(self, number: int, running: Callable[[], Iterable[StagedJob]], by: str) -> list[FiringRecord]:
        """
        Return the firings that ended after *number*, in order, and the running ones, all with *by* as their owner.

        *running* is called last, so a firing that ends during the call is only in the next answer.
        """
        ended = [FiringRecord(*fields, by) for fields in self._ring.copy() if fields[0] > number]
        return ended + [_running(entry, by) for entry in running() if entry.fired_at]


def _running(entry: StagedJob, by: str) -> FiringRecord:
    job = entry.job
    return FiringRecord(
        0,
        job.key,
        job.generation,
        entry.attempt,
        job.target,
        job.handler,
        job.due_at,
        entry.fired_at,
        "running",
        None,
        None,
        by,
        entry.progress,
    )


_WORDS: Final = {ending: ending.value for ending in Ending}
_COUNTED_AS: Final = _WORDS | {Ending.DIED: "dead_total"}
_NAMED: Final = frozenset({"handler", "pull"})
"""
The targets whose handlers are names. The handlers of other targets are addresses, and their number is not bounded.
"""
_SETTLED: Final = Outcome.SETTLED  # an enum is slow to look into
_RETRIED, _DIED = Ending.RETRIED, Ending.DIED
_NAMES_MAX: Final = 200
_OTHERS: Final = "(others)"
"""The name under which all further handlers are counted."""

_log = logging.getLogger("tickwheel.scheduler")


class Figures:
    """
    Counters of firings. Only the thread that commits writes, so no count needs a lock; any thread may read.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("fired", "failed", "refused", *_COUNTED_AS.values()), 0)
        self.lateness = Distribution()
        self.recent = Recent()
        self.lanes: LaneCounts | None = None
        """The counts of the open minute for each lane, while this process fires."""
        self.service: dict[str, str] | None = None
        """The URL and secret of the service of this process, for the other nodes of its store."""
        self._by_handler: dict[tuple[str, str], dict[str, int]] = {}
        self._traced: dict[int, tuple[float, float, Span]] = {}
        """The last traced firing of each octave of lateness."""

    def settled(self, batch: Sequence[tuple[StagedJob, Verdict]], answers: Sequence[Answer]) -> bool:
        has_trouble = False
        counts, late, ended = self.counts, list[float](), list[Remembered]()
        counted: list[tuple[StagedJob, Ending]] = []
        endings: defaultdict[tuple[str, str, Ending], int] = defaultdict(int)
        words, settled = _WORDS, _SETTLED
        for (entry, verdict), answer in zip(batch, answers, strict=True):
            ending, job, fired_at = verdict.ending, entry.job, entry.fired_at
            has_counted = answer.outcome is settled or not is_refused(verdict, answer)
            if fired_at:
                late_ms = fired_at - job.due_at
                late.append(late_ms)
                ended.append((entry, words[ending] if has_counted else "superseded", verdict.settle.error))
                if entry.span is not None:
                    self._traced[int(late_ms * 1000).bit_length()] = late_ms, fired_at, entry.span
            if not has_counted:
                counts["refused"] += 1
                has_trouble = True
                continue
            counted.append((entry, ending))
            target = job.target
            endings[target, job.handler if target in _NAMED else "", ending] += 1
            if ending is _RETRIED or ending is _DIED:
                has_trouble = True
                counts["failed"] += ending is _RETRIED or bool(fired_at)
        self.lateness.add(late)
        self.recent.add(ended)
        if self.lanes is not None:
            self.lanes.add(counted)
        counts["fired"] += len(late)
        for (target, handler, ending), count in endings.items():
            name = _COUNTED_AS[ending]
            counts[name] += count
            self._counts_of(target, handler)[name] += count
        return has_trouble

    def by_target(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for (target, _), counts in self._by_handler.copy().items():
            so_far = found.setdefault(target, dict.fromkeys(counts, 0))
            found[target] = {name: so_far[name] + count for name, count in counts.items()}
        return found

    def by_handler(self) -> list[dict[str, Any]]:
        return [
            {"target": target, "handler": handler, **counts}
            for (target, handler), counts in self._by_handler.copy().items()
        ]

    def traces(self) -> list[dict[str, Any]]:
        found = []
        for late_ms, fired_at, span in self._traced.copy().values():
            try:
                trace = span.trace
            except Exception:  # noqa: BLE001  an error of a tracer must not stop the figures
                _log.exception("the tracer raised when it was asked for a trace")
                continue
            if int(trace[-2:], 16) & 1:  # its provider has kept it
                found.append({"lateness_ms": late_ms, "fired_at": fired_at, "trace": trace})
        return found

    def _counts_of(self, target: str, handler: str) -> dict[str, int]:
        known = self._by_handler
        if (target, handler) not in known and len(known) >= _NAMES_MAX:
            handler = _OTHERS if handler else ""
        counts = known.get((target, handler))
        if counts is None:
            counts = known[target, handler] = dict.fromkeys(_COUNTED_AS.values(), 0)
        return counts
