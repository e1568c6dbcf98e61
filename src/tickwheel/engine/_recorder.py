"""
Adds the record for the history to a settle, so that both are written in one commit.

    history.keep            "none"   "failures"                  "usual"                        "all"
    recorded attempts       -        failed, died, expired, or   and every run of a recurring   and every success and
                                     noted something             job                            snooze
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Ending, Verdict
from tickwheel.host.options import HistoryOptions
from tickwheel.jobs.model import HistoryRecord
from tickwheel.jobs.recurrence import nominal_of

__all__ = ["Recorder"]

_OUTCOMES: Final = {ending: ending.value for ending in Ending} | {Ending.RETRIED: "failed"}
"""The outcome that users read, by ending."""

_SUCCEEDED: Final = Ending.SUCCEEDED  # an enum is slow to look into
_FAILURES: Final = (Ending.RETRIED, Ending.DIED, Ending.EXPIRED, Ending.STOPPED)
_KEPT: Final = {
    "none": (),
    "failures": _FAILURES,
    "usual": (Ending.SUCCEEDED, *_FAILURES),
    "all": (Ending.SUCCEEDED, Ending.SNOOZED, *_FAILURES),
}
"""The endings that are recorded, by `HistoryOptions.keep`."""


class Recorder:
    def __init__(self, options: HistoryOptions, by: str, now: Callable[[], float]) -> None:
        self._kept: tuple[Ending, ...] = _KEPT[options.keep]
        self._has_all = options.keep == "all"
        self._by = by
        self._now = now
        self.count = 0

    def noted(self, entry: StagedJob, verdict: Verdict) -> Verdict:
        ending, job, progress = verdict.ending, entry.job, entry.progress
        is_plain = ending is _SUCCEEDED and job.recurrence is None and (progress is None or not progress.note)
        if is_plain and not self._has_all:
            return verdict  # most end so, and this is all it costs them
        if ending not in self._kept:
            return verdict
        now = self._now()
        begun_at = float(entry.fired_at) or None
        took_ms = None
        if begun_at is not None:
            entry.ran_ms = took_ms = entry.ran_ms or max(0.0, now - begun_at)
        record = HistoryRecord(
            0,
            int(now),
            job.key,
            job.generation,
            entry.attempt,
            _OUTCOMES[ending],
            self._by,
            job.target,
            job.handler,
            job.due_at,
            begun_at,
            took_ms,
            verdict.settle.error,
            verdict.traceback,
            _trace_of(entry),
            None if progress is None else progress.note or None,
            nominal_of(job.key, job.due_at, job.recurrence),
        )
        self.count += 1
        return replace(verdict, settle=replace(verdict.settle, record=record, is_first=True))


def _trace_of(entry: StagedJob) -> str | None:
    if entry.span is not None:
        with suppress(Exception):  # a tracer's fault may not stop a firing
            return entry.span.trace
    return entry.job.trace
