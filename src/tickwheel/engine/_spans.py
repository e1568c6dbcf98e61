"""
The spans of traced firings: begun one by one, ended together.

The tracing library takes long to end a span. The end of a span is therefore recorded with its time, and reported in a
batch.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.observe.events import JobFired
from tickwheel.observe.tracing import Span

__all__ = ["Spans", "drawn", "fired_event"]

_MANY: Final = 128
"""Number of ended firings that are reported together, which takes 2 ms."""

_PAUSE_S: Final = 0.1
"""Seconds after which even a few ended firings are reported."""

_log = logging.getLogger("tickwheel.scheduler")


class Spans:
    """
    The spans of one scheduler. An error of the tracer is logged, and does not stop a firing.
    """

    def __init__(self, resources: Resources) -> None:
        assert resources.tracer is not None
        self._tracer = tracer = resources.tracer
        self._pacer = resources.pacer
        self._wall_ns = resources.runtime.clock.wall_ns
        self._ended: deque[tuple[Span, str, str | None, int]] = deque()
        self._is_timed = False
        self._random = resources.runtime.random
        self._share = tracer.share

    def draw(self, entries: Sequence[StagedJob]) -> None:
        for place in drawn(len(entries), self._share, self._random):
            entries[place].is_sampled = True

    def begin(self, entry: StagedJob) -> Span | None:
        trace = entry.job.trace
        try:
            if trace is None or self._tracer.samples(trace):
                return self._tracer.begin(partial(fired_event, entry), trace)
        except BaseException:  # noqa: BLE001  a tracer's fault, even SystemExit, may not stop a firing
            _log.exception("the tracer raised at the begin of a firing")
        return None

    def end(self, span: Span, outcome: str, error: str | None = None) -> None:
        self._ended.append((span, outcome, error, self._wall_ns()))
        if len(self._ended) >= _MANY:
            self._emit()
        elif not self._is_timed:
            self._is_timed = True
            try:
                self._pacer.call_later(_PAUSE_S, self.flush)
            except ClosedError:  # the scheduler stops, so there is no time for a pause
                self.flush()

    def flush(self) -> None:
        self._is_timed = False
        self._emit()

    def _emit(self) -> None:
        while self._ended:
            try:
                span, outcome, error, at_ns = self._ended.popleft()
            except IndexError:  # another thread has taken the last one
                return
            try:
                span.end(outcome, error, at_ns)
            except BaseException:  # noqa: BLE001  a tracer's fault, even SystemExit, may not stop a firing
                _log.exception("the tracer raised at the end of a firing")


def drawn(count: int, share: float, random: Callable[[], float]) -> Iterator[int]:
    """
    Yield the indices below *count* that are sampled, each with probability *share*.

    The gap to the next index has a geometric distribution: the logarithm of a uniform number (Devroye, Non-Uniform
    Random Variate Generation, 1986, X.2). The gaps are independent, so each batch of firings can be sampled separately.
    """
    if share >= 1:
        yield from range(count)
    elif share > 0:
        per_miss = math.log1p(-share)
        place = math.log(1 - random()) / per_miss
        while place < count:  # a tiny share can make the float infinite, which has no int
            yield int(place)
            place = int(place) + 1 + math.log(1 - random()) / per_miss


def fired_event(entry: StagedJob) -> JobFired:
    job, fired_at = entry.job, entry.fired_at
    return JobFired(
        job.key,
        job.generation,
        entry.attempt,
        job.target,
        job.handler,
        job.due_at,
        int(fired_at),
        fired_at - job.due_at,
    )
