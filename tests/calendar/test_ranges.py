"""
Ranges that wrap around the end of their field, and days that must match both day fields.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tickwheel.calendar import Cron, DayMatch
from tickwheel.errors import RecurrenceError

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
START = datetime(2026, 1, 1, tzinfo=UTC)


def runs(cron, count):
    """
    Return the first *count* times at which *cron* fires.
    """
    found, after = [], int(START.timestamp() * 1000) - 1
    for _ in range(count):
        after = cron.next(after)
        found.append(datetime.fromtimestamp(after / 1000, UTC))
    return found


@pytest.mark.parametrize(
    ("wrapped", "spelled"),
    [
        ("0 9 * * FRI-MON", "0 9 * * 0,1,5,6"),
        ("0 9 * * fri-mon", "0 9 * * FRI,SAT,SUN,MON"),
        ("0 9 * * 5-1", "0 9 * * 5,6,0,1"),
        ("0 9 * * SAT-SUN", "0 9 * * 6,0"),
        ("0 9 * * 7-2", "0 9 * * 0-2"),
        ("0 9 * * 7-2/2", "0 9 * * 0,2"),
        ("0 9 * * FRI-MON/2", "0 9 * * FRI,SUN"),
        ("0 22-4 * * *", "0 22,23,0,1,2,3,4 * * *"),
        ("0 22-4/2 * * *", "0 22,0,2,4 * * *"),
        ("50-10/10 * * * *", "50,0,10 * * * *"),
        ("0 9 25-5 * *", "0 9 25-31,1-5 * *"),
        ("0 9 1 NOV-FEB *", "0 9 1 11,12,1,2 *"),
        ("0 9 1 11-2/3 *", "0 9 1 11,2 *"),
        ("58-1 0 9 * * *", "58,59,0,1 0 9 * * *"),
        ("0 0 9 * * FRI-MON", "0 0 9 * * 5,6,0,1"),
        ("0 9 * * 5-7", "0 9 * * 5,6,0"),
        ("0 9 * * 1,FRI-SUN", "0 9 * * 0,1,5,6"),
    ],
)
def test_a_range_that_runs_backwards(wrapped, spelled):
    """
    A range that runs backwards continues at the beginning of its field.
    """
    first, second = Cron.parse(wrapped), Cron.parse(spelled)
    assert first.meaning == second.meaning
    assert runs(first, 50) == runs(second, 50)
    assert first.line == wrapped.upper()


@pytest.mark.parametrize(
    "line",
    [
        "0 24-4 * * *",
        "0 22-4/0 * * *",
        "0 22--4 * * *",
        "0 9 * * FRI-MOM",
        "0 9 32-5 * *",
        "0 9 * 13-2 *",
        "0 5-100 * * *",
    ],
)
def test_a_range_that_cannot_be_read(line):
    """
    Values out of range, unknown names and steps of 0 are refused.
    """
    with pytest.raises(RecurrenceError, match="cannot be read"):
        Cron.parse(line)


def test_both_days():
    """
    With `DayMatch.BOTH`, a day has to match both day fields.
    """
    draw = random.Random(50)
    for _ in range(40):
        month_days = sorted(draw.sample(range(1, 29), draw.randint(1, 12)))
        week_days = sorted(draw.sample(range(7), draw.randint(1, 5)))
        line = f"0 9 {','.join(map(str, month_days))} * {','.join(DAYS[each] for each in week_days)}"
        every = (START + timedelta(days=each, hours=9) for each in range(5_000))
        wanted = (each for each in every if each.day in month_days and each.isoweekday() % 7 in week_days)
        expected = list(islice(wanted, 10))
        assert runs(Cron.parse(line, day_match=DayMatch.BOTH), len(expected)) == expected


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("0 9 13 * FRI", "2026-02-13"),
        ("0 0 9 13 * FRI", "2026-02-13"),
        ("0 9 1-7 * MON", "2026-01-05"),
        ("0 9 15W * THU", "2026-01-15"),
        ("0 9 L * SAT", "2026-01-31"),
        ("0 9 29 2 MON", "2044-02-29"),
        ("0 9 8-14 * TUE#2", "2026-01-13"),
    ],
)
def test_the_first_day_that_matches_both(line, day):
    """
    With `DayMatch.BOTH`, a weekday can also restrict the special days of Quartz.
    """
    assert runs(Cron.parse(line, day_match=DayMatch.BOTH), 1)[0].date().isoformat() == day


@pytest.mark.parametrize("line", ["0 9 31 2 MON", "0 9 15W * SUN", "0 9 1-7 * MON#2", "0 9 30,31 2 *"])
def test_days_that_never_match_both(line):
    """
    If no day can match both day fields, the line is refused, and the search for such a day ends.
    """
    with pytest.raises(RecurrenceError, match=r"fire"):
        Cron.parse(line, day_match=DayMatch.BOTH)


def test_both_changes_nothing_with_a_star():
    """
    If a line restricts only one day field, `DayMatch.BOTH` changes nothing.
    """
    for line in ("0 9 * * MON", "0 9 13 * *", "0 9 ? * MON", "0 0 9 13 * ?"):
        assert Cron.parse(line).meaning == Cron.parse(line, day_match=DayMatch.BOTH).meaning
    assert Cron.parse("0 9 13 * FRI").meaning != Cron.parse("0 9 13 * FRI", day_match=DayMatch.BOTH).meaning
