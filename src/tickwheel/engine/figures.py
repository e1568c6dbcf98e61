from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any, Final, TypeAlias

from tickwheel.engine._records import LaneCounts
from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending
from tickwheel.host.distribution import Distribution
from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.observe.tracing import Span

__all__ = ["Figures", "Recent"]

_SIZE: Final = 500
_Columns: TypeAlias = tuple[Sequence[Any], ...]


class Recent:
    """
    The last firings, stored as columns.
    """

    def __init__(self) -> None:
        self.number = 0
        self._ring: deque[tuple[int, _Columns]] = deque()
        """The number of the first firing of a batch, and its columns: a `FiringRecord` up to `took_ms`."""

    def add(self, entries: Sequence[StagedJob], outcomes: Sequence[str], errors: Sequence[str | None]) -> None:
        jobs = [entry.job for entry in entries]
        columns = (
            [job.key for job in jobs],
            [job.generation for job in jobs],
            [job.attempt + 1 for job in jobs],
            [job.target for job in jobs],
            [job.handler for job in jobs],
            [job.due_at for job in jobs],
            [entry.fired_at for entry in entries],
            outcomes,
            errors,
            [entry.ran_ms or None for entry in entries],
        )
        self._ring.append((self.number + 1, columns))
        self.number += len(entries)
        while len(self._ring) > 1 and self.number - self._ring[1][0] >= _SIZE - 1:
            self._ring.popleft()

    def after(self, number: int, running: Callable[[], Iterable[StagedJob]], by: str) -> list[FiringRecord]:
        """
        Return the firings that ended after the firing *number*, in order, then the running ones. *by* is their owner.

        *running* is called last. A firing that ends during this call may be missing; the next call returns it.
        """
        ended = [
            FiringRecord._make((*fields, by, None))
            for first, columns in self._ring.copy()
            for fields in zip(count(first), *columns, strict=False)
            if fields[0] > number
        ][-_SIZE:]
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
"""Targets whose handlers are counted by name. Handlers of other targets are addresses, maybe too many to count."""
_SUCCEEDED, _RETRIED, _DIED = Ending.SUCCEEDED, Ending.RETRIED, Ending.DIED  # an enum look-up is slow
_NAMES_MAX: Final = 200
_OTHERS: Final = "(others)"
"""The name under which all handlers beyond `_NAMES_MAX` are counted."""

_log = logging.getLogger("tickwheel.scheduler")


class Figures:
    """
    Counters of firings. Only the committing thread changes the counters, so they need no lock; any thread may read.
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
        """The last traced firing in each octave of lateness (a range from x to 2 x)."""

    def settled(self, entries: Sequence[StagedJob], refused: Collection[StagedJob]) -> bool:
        """
        Count *entries*, whose outcomes were written or *refused*. Return True if any was refused or is a failure.
        """
        counts, has_trouble = self.counts, bool(refused)
        self._remember([entry for entry in entries if entry.fired_at], refused)
        for (target, handler, ending), group in _grouped(entries, refused).items():
            late_ms = sorted([entry.fired_at - entry.job.due_at for entry in group if entry.fired_at])
            self.lateness.add(late_ms)
            counts["fired"] += len(late_ms)
            if ending is None:
                counts["refused"] += len(group)
                continue
            if self.lanes is not None:
                self.lanes.add(ending, group, late_ms)
            if ending is _RETRIED or ending is _DIED:
                has_trouble = True
                counts["failed"] += len(group if ending is _RETRIED else late_ms)
            name = _COUNTED_AS[ending]
            counts[name] += len(group)
            self._counts_of(target, handler if target in _NAMED else "")[name] += len(group)
        return has_trouble

    def _remember(self, fired: Sequence[StagedJob], refused: Collection[StagedJob]) -> None:
        outcomes: Sequence[str] = [_WORDS[_SUCCEEDED]] * len(fired)
        errors: Sequence[str | None] = [None] * len(fired)
        verdicts = [entry.verdict for entry in fired]
        if refused or any(verdicts):
            outcomes = ["superseded" if entry in refused else _WORDS[_ending_of(entry)] for entry in fired]
            errors = [None if verdict is None else verdict.settle.error for verdict in verdicts]
        if fired:
            self.recent.add(fired, outcomes, errors)
        for entry in fired:
            if entry.span is not None:
                late_ms = entry.fired_at - entry.job.due_at
                self._traced[int(late_ms * 1000).bit_length()] = late_ms, entry.fired_at, entry.span

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
            if int(trace[-2:], 16) & 1:  # the tracing provider has sampled the trace
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


def _ending_of(entry: StagedJob) -> Ending:
    return _SUCCEEDED if entry.verdict is None else entry.verdict.ending


def _grouped(
    entries: Sequence[StagedJob], refused: Collection[StagedJob]
) -> dict[tuple[str, str, Ending | None], list[StagedJob]]:
    groups: dict[tuple[str, str, Ending | None], list[StagedJob]] = {}
    target, handler, plain = None, None, list[StagedJob]()
    for entry in entries:
        job = entry.job
        if entry.verdict is not None or refused:
            ending = None if entry in refused else _ending_of(entry)
            groups.setdefault((job.target, job.handler, ending), []).append(entry)
            continue
        if job.handler != handler or job.target != target:  # jobs that end together mostly have one handler
            target, handler = job.target, job.handler
            plain = groups.setdefault((target, handler, _SUCCEEDED), [])
        plain.append(entry)
    return groups
