"""
Days of a month in Quartz's notation, as its CronTrigger tutorial and its class CronExpression define it.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

import pytest

from tickwheel.calendar import Cron
from tickwheel.errors import RecurrenceError

YEARS = (2023, 2029)


def days(line):
    """
    Return the days on which *line* fires in `YEARS`.
    """
    cron, found = Cron.parse(line), []
    after = int(datetime(YEARS[0], 1, 1, tzinfo=UTC).timestamp() * 1000) - 1
    while True:
        after = cron.next(after)
        day = datetime.fromtimestamp(after / 1000, UTC).date()
        if day.year >= YEARS[1]:
            return found
        found.append(day)


def months():
    """
    Return the first and the last day of every month in `YEARS`.
    """
    firsts = [date(year, month, 1) for year in range(*YEARS) for month in range(1, 13)]
    return [(first, first.replace(day=monthrange(first.year, first.month)[1])) for first in firsts]


def nearest_weekday(day):
    """
    Return the weekday nearest to *day* in the same month, found by checking every day.
    """
    month = [day + timedelta(offset) for offset in (0, -1, 1, -2, 2)]
    return next(each for each in month if each.month == day.month and each.weekday() < 5)


@pytest.mark.parametrize("number", [1, 2, 15, 28, 29, 30, 31])
def test_nearest_weekday(number):
    """
    `15W` is the weekday nearest to the 15th in the same month. A month without the numbered day has no run.
    """
    expected = [nearest_weekday(first.replace(day=number)) for first, last in months() if number <= last.day]
    assert days(f"0 9 {number}W * *") == expected


def beside_croniter(line):
    """
    Return the days in `YEARS` on which croniter fires *line*.
    """
    croniter = pytest.importorskip("croniter", reason="croniter is not installed: it is only compared with").croniter
    series = iter(croniter(line, datetime(YEARS[0], 1, 1, tzinfo=UTC) - timedelta(seconds=1)).all_next(datetime))
    return [day.date() for day in takewhile(lambda day: day.year < YEARS[1], series)]


@pytest.mark.parametrize(
    "line",
    [
        *(f"0 9 {number}W * *" for number in (1, 2, 15, 28)),
        "0 9 L * *",
        "0 9 L 2 *",
        "0 9 1,15,L * *",
        "0 9 L * MON",
        *(f"0 9 * * {weekday}#{number}" for weekday in ("0", "7", "5", "SUN", "FRI") for number in (1, 3, 5)),
        "0 9 * 2 THU#5",
        "0 9 * * MON#1,FRI#3",
    ],
)
def test_the_same_days_as_croniter(line):
    """
    For `15W`, `L` and `#`, tickwheel and croniter give the same days.
    """
    assert days(line) == beside_croniter(line)


@pytest.mark.parametrize("weekday", range(8))
def test_the_last_weekday_is_written_as_quartz_does(weekday):
    """
    The last Friday is `5L`, as in Quartz. `L5`, as in croniter, is refused.
    """
    assert days(f"0 9 * * {weekday}L") == beside_croniter(f"0 9 * * L{weekday}")
    with pytest.raises(RecurrenceError, match=f"its day-of-week field 'L{weekday}' cannot be read"):
        Cron.parse(f"0 9 * * L{weekday}")


@pytest.mark.parametrize("number", [29, 30, 31])
def test_a_month_without_the_day_has_no_weekday_near_it(number):
    """
    In a month without a 31st, croniter runs `31W` on the last weekday, like `LW`.

    In tickwheel such a month has no run, as with a plain `31`.
    """
    lacking = [last for _, last in months() if last.day < number]
    expected = sorted(days(f"0 9 {number}W * *") + [nearest_weekday(last) for last in lacking])
    assert beside_croniter(f"0 9 {number}W * *") == expected


def test_a_day_beside_a_numbered_weekday():
    """
    If both day fields are restricted, a day has to match only one of them, as in Vixie's cron.
    """
    assert days("0 9 1 * FRI#3") == sorted({*days("0 9 1 * *"), *days("0 9 * * FRI#3")})
    assert days("0 9 L * FRI#3") == sorted({*days("0 9 L * *"), *days("0 9 * * FRI#3")})
    assert days("0 9 * * MON#1,3") == sorted({*days("0 9 * * MON#1"), *days("0 9 * * 3")})


@pytest.mark.parametrize("before", [1, 3, 15, 27, 28, 30])
def test_days_before_the_last(before):
    """
    `L-3` is three days before the last day, and `L-3W` is the weekday nearest to `L-3`.
    """
    found = [last - timedelta(before) for first, last in months() if last.day > before]
    assert days(f"0 9 L-{before} * ?") == found
    assert days(f"0 9 L-{before}W * ?") == [nearest_weekday(day) for day in found]


def test_the_last_days():
    """
    `L` is the last day, `LW` the last weekday, `FRIL` and `5L` the last Friday, `FRI#3` and `5#3` the third Friday.
    """
    assert days("0 9 L * ?") == [last for _, last in months()]
    assert days("0 9 LW * ?") == [nearest_weekday(last) for _, last in months()]
    fridays = [[day for day in days("0 9 * * FRI") if day.replace(day=1) == first] for first, _ in months()]
    assert days("0 9 ? * FRIL") == days("0 9 ? * 5L") == [each[-1] for each in fridays]
    assert days("0 9 ? * FRI#3") == days("0 9 ? * 5#3") == [each[2] for each in fridays]
    assert days("0 9 ? * FRI#5") == [each[4] for each in fridays if len(each) == 5]


def test_days_in_a_list():
    """
    A field may list special days and plain days. If two of them are the same day, the line fires once on that day.
    """
    expected = sorted({*days("0 9 1,L * *"), *days("0 9 15W * *"), *days("0 9 L-3 * *")})
    assert days("0 9 1,15W,L-3,L * *") == days("0 0 9 15W,L,1,L-3 * ?") == expected
    assert days("0 0 9 14W,15W JUN ?")[:2] == [date(2023, 6, 14), date(2023, 6, 15)]


def test_special_days_of_a_month():
    """
    The month field also applies to special days.
    """
    assert days("30 8 1W JAN *")[:2] == [date(2023, 1, 2), date(2024, 1, 1)]
    assert Cron.parse("* * 15W 3 *").next(0) // 1000 == datetime(1970, 3, 16, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0 9 0W * *", "its day-of-month field '0W' cannot be read"),
        ("0 9 32W * *", "'32W' cannot be read"),
        ("0 9 1-5W * *", "'1-5W' cannot be read"),
        ("0 9 15W/2 * *", "'15W/2' cannot be read"),
        ("0 9 W * *", "'W' cannot be read"),
        ("0 9 L-0 * *", "'L-0' cannot be read"),
        ("0 9 L-31 * *", "'L-31' cannot be read"),
        ("0 9 L-٣ * *", "cannot be read"),
        ("0 9 1,L-3X * *", "'1,L-3X' cannot be read"),
        ("0 9 15W * MON", r"beside a day-of-month field of '15W' the day-of-week field has to be \* or \?, not 'MON'"),
        ("0 9 31W 2,4 *", "does not fire within 50 years"),
        ("0 9 * * MONTL", "its day-of-week field 'MONTL' cannot be read"),
        ("0 9 * * MON#6", "its day-of-week field 'MON#6' cannot be read"),
        ("0 9 * * L", "its day-of-week field 'L' cannot be read"),
    ],
)
def test_days_that_are_refused(line, said):
    """
    A day that exists in no month, or that cannot be parsed, is refused, and the error names the field.
    """
    with pytest.raises(RecurrenceError, match=said):
        Cron.parse(line)
