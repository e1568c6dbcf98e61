"""
The checker of series, where a clock is set between a run that was asked for and the instant that it is besides.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation._series import Series
from simulation._weather import Weather
from simulation.history import Committed, Fault, Fired

from tickwheel.scheduler.model import Answer, Job, Move, Outcome, Redate, Settle, Settled

NOW = 1_700_007_081_004
HOUR = 3_600_000
SECOND_NS = 1_000_000_000
CRON = '{"cron":"*/20 * * * *","misfire":"all","tz":"UTC"}'
EVERY = '{"anchor_at":1699993452747,"every_ms":600000,"misfire":"all"}'


def committed(second, store_ms, write, outcome):
    """
    Return the event of a write.
    """
    return Committed(second * SECOND_NS, "n0", store_ms, write, Answer(outcome))


@pytest.mark.parametrize(
    ("recurrence", "awaited", "next_at", "is_right"),
    [
        (CRON, 1_700_007_600_000, 1_700_007_600_000, True),
        (CRON, 1_700_007_600_000, 1_700_004_000_000, False),
        (EVERY, 1_700_009_455_099, 1_700_009_455_099 - HOUR, True),
        (EVERY, 1_700_009_455_099, 1_700_009_455_099, False),
    ],
)
def test_what_a_run_now_is_besides_moves_with_the_clock(recurrence, awaited, next_at, is_right):
    """
    After a step by an hour, elapsed time still waits for what it waited for, and a cron line for the same time of day.
    """
    weather = Weather()
    series = Series(weather)
    waiting = Job("steer", 1, awaited, recurrence=recurrence)
    series.changed(committed(1, NOW, Move("steer", NOW, keeps_next=True), Outcome.MOVED), waiting)
    weather.broken(Fault(2 * SECOND_NS, "step n0 -3600000000000"))
    moved = replace(waiting, due_at=NOW)
    series.changed(committed(3, NOW - HOUR, Redate(moved, 1, NOW - HOUR, recurrence), Outcome.MOVED), moved)
    run = replace(moved, due_at=NOW - HOUR)
    series.fired(Fired(4 * SECOND_NS, "n0", "steer", 1, 1, run.due_at, NOW - HOUR, {}))
    settle = Settle(run, 1, Settled.DONE, 0, due_at=next_at, recurrence=recurrence)
    wrong = series.judge(committed(5, NOW - HOUR, settle, Outcome.SETTLED), run, settle)
    assert (wrong is None) is is_right, wrong
