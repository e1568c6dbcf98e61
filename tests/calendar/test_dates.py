"""
Series with an interval of days, weeks or months, at a time of day.
"""

from __future__ import annotations

import random
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Dates, DstGap, DstOverlap, Step, time_of
from tickwheel.errors import RecurrenceError

NOW = int(datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp() * 1000)


def walls(series, count, after):
    """
    Return the wall-clock times of the first *count* runs of the series after *after*.
    """
    found = []
    for _ in range(count):
        after = series.next(after)
        found.append(datetime.fromtimestamp(after / 1000, ZoneInfo(series.tz)).replace(tzinfo=None))
    return found


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("3d", Step(3, 0)),
        ("3 days", Step(3, 0)),
        ("1 day", Step(1, 0)),
        ("P3D", Step(3, 0)),
        ("2w", Step(14, 0)),
        ("2 Weeks", Step(14, 0)),
        ("P2W", Step(14, 0)),
        ("1 month", Step(0, 1)),
        ("3 months", Step(0, 3)),
        ("3mo", Step(0, 3)),
        ("P3M", Step(0, 3)),
        ("1y", Step(0, 12)),
        ("P1Y", Step(0, 12)),
        ("3m", None),
        ("3h", None),
        ("days", None),
        ("-3d", None),
        ("1.5d", None),
        ("٣d", None),
    ],
)
def test_steps(text, step):
    """
    Days, weeks, months and years are parsed as steps, and the text of a step is parsed to the same step.
    """
    assert Step.of(text) == step
    assert step is None or Step.of(str(step)) == step


@pytest.mark.parametrize("text", ["0d", "0 months", "36526d", "1201 months", "999999999w"])
def test_steps_out_of_bounds(text):
    """
    A step of zero, or of more than a century, is refused.
    """
    with pytest.raises(RecurrenceError, match="at least a day or a month"):
        Step.of(text).checked(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("02:00", time(2)), ("2:05", time(2, 5)), ("23:59:30", time(23, 59, 30)), (time(7, 1), time(7, 1))],
)
def test_times(value, expected):
    """
    A time of day is accepted as text, or as a `time` without a zone.
    """
    assert time_of(value) == expected


@pytest.mark.parametrize(
    "value", ["24:00", "2", "02:60", "2pm", "", "02:00:00.5", "02:00Z", 2, None, time(2, tzinfo=UTC), time(2, 0, 0, 5)]
)
def test_times_that_are_refused(value):
    """
    Values that are not a time of day are refused.
    """
    with pytest.raises(RecurrenceError, match=r"time is .*: pass a time of the day such as"):
        time_of(value)


def test_days_over_a_change_of_the_clock():
    """
    Every third day fires at the same time of day, across clock changes.
    """
    start = int(datetime(2026, 3, 20, tzinfo=UTC).timestamp() * 1000)
    series = Dates.beginning(start, Step(3, 0), time(2, 30), "Europe/Berlin", gap=None, overlap=None)
    found = walls(series, 80, start - 1)
    assert [each.date() for each in found] == [date(2026, 3, 20) + timedelta(days=3 * n) for n in range(80)]
    odd = [each.isoformat() for each in found if each.time() != time(2, 30)]
    assert odd == ["2026-03-29T03:00:00"]


def test_ends_of_months():
    """
    In a month that lacks the requested day, a monthly series fires on the last day.

    In the next month it fires on the requested day again.
    """
    start = int(datetime(2027, 1, 31, tzinfo=UTC).timestamp() * 1000)
    series = Dates.beginning(start, Step(0, 1), time(0), "UTC", gap=None, overlap=None)
    assert [each.day for each in walls(series, 15, start - 1)] == [
        31,
        28,
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
        31,
        29,
        31,
    ]


def test_random_series():
    """
    A series of days or months has exactly the dates that follow from its first date and its step.
    """
    draw = random.Random(3)
    for _ in range(300):
        anchor = date(2020, 1, 1) + timedelta(days=draw.randrange(4000))
        days, months = draw.choice([(draw.randint(1, 400), 0), (0, draw.randint(1, 30))])
        series = Dates(Step(days, months), time(draw.randrange(24), draw.randrange(60)), anchor)
        index = draw.randint(-30, 300)
        day = anchor + timedelta(days=index * days)
        if months:
            year, month = divmod(anchor.year * 12 + anchor.month - 1 + index * months, 12)
            day = date(year, month + 1, min(anchor.day, monthrange(year, month + 1)[1]))
        if day.year < 1900:
            continue
        instant = int(datetime.combine(day, series.time, UTC).timestamp() * 1000)
        assert series.next(instant - 1) == instant
        assert series.next(instant) > instant
        assert series.date_of(instant) == day
        assert series.next(series.previous(instant)) == instant
        assert series.has_phase_of(Dates(series.step, series.time, day)) == (day.day == anchor.day or not months)


@pytest.mark.parametrize(
    ("zone", "day", "at", "first"),
    [
        ("Pacific/Apia", "2011-12-29T13:00+00:00", time(2), date(2011, 12, 30)),
        ("America/Toronto", "1919-03-31T01:00+00:00", time(23, 45), date(1919, 3, 30)),
        ("Africa/Cairo", "2026-04-23T12:00+00:00", time(0), date(2026, 4, 24)),
    ],
)
def test_a_first_run_in_a_gap(zone, day, at, first):
    """
    If the first run falls in a gap, the series still counts its steps from the requested date.
    """
    start = int(datetime.fromisoformat(day).timestamp() * 1000)
    series = Dates.beginning(start, Step(5, 0), at, zone, gap=None, overlap=None)
    assert series.anchor_on == first
    second = datetime.fromtimestamp(series.next(series.next(start)) / 1000, ZoneInfo(zone))
    assert (second.date(), second.time()) == (first + timedelta(days=5), at)


def test_policies_of_dates():
    """
    With the gap policy "skip", a run in a gap is omitted.

    With the overlap policy "both", a run in an overlap takes place twice.
    """
    start = int(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp() * 1000)
    series = Dates.beginning(start, Step(1, 0), time(2, 30), "Europe/Berlin", gap=DstGap.SKIP, overlap=DstOverlap.BOTH)
    assert [each.isoformat() for each in walls(series, 1, start)] == ["2026-03-30T02:30:00"]
    autumn = int(datetime(2026, 10, 25, tzinfo=UTC).timestamp() * 1000)
    assert [each.day for each in walls(series, 4, autumn)] == [25, 25, 26, 27]


def test_the_end_of_the_calendar():
    """
    A search that reaches the end of the calendar ends without an error.
    """
    late = int(datetime(9899, 12, 31, 23, tzinfo=UTC).timestamp() * 1000)
    for step in (Step(1, 0), Step(36_525, 0), Step(0, 1), Step(0, 1200)):
        series = Dates(step, time(2), date(2026, 1, 31))
        found = series.next(late)
        assert found is None or found > late
        assert Dates(step, time(2), date(9999, 12, 31)).next(NOW) is not None
