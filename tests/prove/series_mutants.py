"""
Engines with faults in handling recurring jobs.
"""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

from tickwheel.engine._dispatch import OverlapCanceller
from tickwheel.jobs import rules as _rules
from tickwheel.jobs.recurrence import Overlap, Recurrence

__all__ = [
    "begins_again_when_set",
    "forgets_the_scheduled_due_time",
    "lets_it_run_on",
    "makes_up_for_nothing",
    "skips_a_run",
]


def skips_a_run() -> Any:
    """
    Fault: a recurring job omits every twentieth due time.
    """
    following = Recurrence.following
    number = itertools.count(1)

    def careless(self: Any, key: str, due_at: int, begun: int, ended: int) -> Any:
        found = following(self, key, due_at, begun, ended)
        return following(self, key, found[0], found[0], found[0]) if next(number) % 20 == 0 else found

    return mock.patch.object(Recurrence, "following", careless)


def makes_up_for_nothing() -> Any:
    """
    Fault: due times that pass during a run are omitted, under any overlap policy.
    """
    return mock.patch.object(Recurrence, "_overlaps", Overlap.SKIP)


def lets_it_run_on() -> Any:
    """
    Fault: if the next run becomes due, the current run continues, although the overlap policy says to stop it.
    """
    return mock.patch.object(OverlapCanceller, "begin")


def forgets_the_scheduled_due_time() -> Any:
    """
    Fault: after a `run_now`, the job omits the due time at which it would have run without the `run_now`.
    """
    return mock.patch.object(_rules, "runs_besides", lambda job: job.recurrence)


def begins_again_when_set() -> Any:
    """
    Fault: setting the same rule again begins a new series and forgets missed runs.
    """
    return mock.patch.object(_rules, "_is_kept", return_value=False)
