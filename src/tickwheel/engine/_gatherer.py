"""
Batches acknowledgements of finished attempts, in one partition of the store.

A lone acknowledgement is written at once. Others gather during its commit, and for at least 5 ms from its start, and
share the next commit: at a thousand firings a second that saves four of five commits, and half of the CPU. The pause
has a timer only if something gathers in it: where a node fires little, no thread wakes up for it. With n partitions,
which wait for no commit of each other, each pauses n times as long: together they commit no more often than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, TypeAlias

from tickwheel.engine._staged_job import StagedJob
from tickwheel.engine._verdict import Verdict
from tickwheel.engine.resources import Resources
from tickwheel.errors import ClosedError
from tickwheel.timers.contract import Timer

__all__ = ["Ended", "Gatherer"]

_CHUNK: Final = 500
"""Maximum number of acknowledgements in one write, so that claims and callers find room beside them."""

_PAUSE_S: Final = 0.005
"""
Time from the start of a commit to the next if fewer than `_MANY` have gathered, for one partition. A crash repeats at
most the jobs that ended in it.
"""

_MANY: Final = 64
"""Number of acknowledgements that are written without a pause."""

Ended: TypeAlias = tuple[StagedJob, Verdict]


class Gatherer:
    """
    Posts acknowledgements in batches, one batch after the other. All methods may be called from any thread.

    Args:
        post: Called with each batch; call `go_on` after its answer.
    """

    def __init__(self, resources: Resources, post: Callable[[list[Ended]], object]) -> None:
        self._pause_s = _PAUSE_S * resources.store.abilities.partitions
        self._pacer = resources.pacer
        self._post = post
        self._monotonic = resources.runtime.monotonic
        self._lock = resources.runtime.lock()
        self._ended: list[Ended] = []
        self._is_posting = False
        self._posted_at = -math.inf
        self._pause: Timer | None = None

    def add(self, ended: Ended) -> None:
        lane = ended[0].lane
        with self._lock:
            self._ended.append(ended)
            is_urgent = lane is not None and lane.is_urgent
            if self._is_posting and not (self._pause is not None and (is_urgent or self._is_full())):
                return
            pause, self._pause = self._pause, None
            if not self._is_posting:
                self._is_posting = True
                if not is_urgent and self._pauses():
                    return
        if pause is not None:
            pause.cancel()
        self._post_next()

    def flush(self) -> None:
        with self._lock:
            is_pausing, self._pause = self._pause is not None, None
        if is_pausing:
            self._post_next()

    def go_on(self) -> None:
        """
        Post the next batch after the pause, or at once if it is large.
        """
        with self._lock:
            if self._ended and self._pauses():
                return
        self._post_next()

    def end(self) -> None:
        self._is_posting = False  # the last batch gets no answer

    def _is_full(self) -> bool:
        return len(self._ended) >= _MANY

    def _pauses(self) -> bool:
        """
        Set the timer for the rest of the pause and return True; return False if nothing is left of it. Under the lock.
        """
        left = self._posted_at + self._pause_s - self._monotonic()
        if left <= 0 or self._is_full():
            return False
        try:
            self._pause = self._pacer.call_later(left, self._end_pause)
        except ClosedError:  # a stop is in a hurry
            return False
        return True

    def _post_next(self) -> None:
        with self._lock:
            batch, self._ended = self._ended[:_CHUNK], self._ended[_CHUNK:]
            if not batch:
                self._is_posting = False
                return
            self._posted_at = self._monotonic()
        self._post(batch)

    def _end_pause(self) -> None:
        with self._lock:
            if self._pause is None:  # somebody was in a hurry
                return
            self._pause = None
        self._post_next()
