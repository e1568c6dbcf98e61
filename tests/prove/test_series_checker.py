"""
The checker of series, tested with a clock step after a `run_now` and before the due time that follows it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulation._series import Series
from simulation._weather import Weather
from simulation.history import Committed, Fault, Fired

from tickwheel.jobs.model import Answer, Job, Move, Outcome, Redate, Settle, Settled

NOW = 1_700_007_081_004
HOUR = 3_600_000
SECOND_NS = 1_000_000_000
CRON = '{"cron":"*/20 * * * *","misfire":"all","tz":"UTC"}'
EVERY = '{"anchor_at":1699993452747,"every_ms":600000,"misfire":"all"}'


def committed(second, store_ms, write, outcome):
    """
    Return the event that records that *write* took effect.
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
def test_the_scheduled_due_time_moves_with_the_clock(recurrence, awaited, next_at, is_right):
    """
    A clock step moves the next due time of a job with an interval, but not of a job with a cron line.
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


@pytest.mark.parametrize(("later_ms", "is_right"), [(0, True), (1, False)])
def test_a_run_now_just_before_the_due_time(later_ms, is_right):
    """
    If a `run_now` comes less than a second before a recurring job's due time, the job must also run at that due time.
    """
    series, due_at = Series(Weather()), NOW + 826
    waiting = Job("steer", 1, due_at, recurrence=CRON)
    series.changed(committed(1, NOW, Move("steer", NOW, keeps_next=True), Outcome.MOVED), waiting)
    run = replace(waiting, due_at=NOW)
    series.fired(Fired(2 * SECOND_NS, "n0", "steer", 1, 1, NOW, NOW, {}))
    settle = Settle(run, 1, Settled.DONE, 0, due_at=due_at + later_ms, recurrence=CRON)
    wrong = series.judge(committed(3, NOW, settle, Outcome.SETTLED), run, settle)
    assert (wrong is None) is is_right, wrong


@pytest.mark.parametrize("recurrence", [CRON.replace("all", "skip"), EVERY.replace("all", "skip")])
@pytest.mark.parametrize(("later_ms", "is_right"), [(0, True), (1_200_000, False)])
def test_the_scheduled_due_time_waits_for_the_end_of_the_run(recurrence, later_ms, is_right):
    """
    If a clock step comes between two attempts of a `run_now`, the next due time moves only after the run has ended.
    """
    weather = Weather()
    series = Series(weather)
    awaited = 1_700_007_600_000 if "cron" in recurrence else 1_700_007_252_747
    waiting = Job("steer", 1, awaited, recurrence=recurrence)
    series.changed(committed(1, NOW, Move("steer", NOW, keeps_next=True), Outcome.MOVED), waiting)
    run = replace(waiting, due_at=NOW)
    series.fired(Fired(2 * SECOND_NS, "n0", "steer", 1, 1, NOW, NOW, {}))
    weather.broken(Fault(3 * SECOND_NS, "step n0 -3600000000000"))
    again = replace(run, due_at=NOW - HOUR + 5_000, attempt=1)
    series.fired(Fired(8 * SECOND_NS, "n0", "steer", 1, 2, again.due_at, again.due_at, {}))
    settle = Settle(again, 1, Settled.DONE, 0, due_at=awaited + later_ms, recurrence=recurrence)
    wrong = series.judge(committed(9, NOW - HOUR + 6_000, settle, Outcome.SETTLED), replace(again, attempt=2), settle)
    assert (wrong is None) is is_right, wrong
