"""
Exclusions from a series: days in a zone, or the matches of a second cron line.
"""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Cron, Exclusion
from tickwheel.errors import RecurrenceError

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text):
    """
    Return the instant at which the wall clock in Berlin shows *text*.
    """
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()) * 1000


@pytest.mark.parametrize(
    ("exclusion", "instant", "end"),
    [
        ("2026-12-25", "2026-12-25 00:00:00", "2026-12-26 00:00:00"),
        ("2026-12-25", "2026-12-25 23:59:59", "2026-12-26 00:00:00"),
        ("2026-12-25", "2026-12-24 23:59:59", None),
        ("2026-12-25", "2026-12-26 00:00:00", None),
        ("2026-12-24/2027-01-02", "2026-12-31 12:00:00", "2027-01-03 00:00:00"),
        (date(2026, 3, 29), "2026-03-29 12:00:00", "2026-03-30 00:00:00"),
        ("* * * * SAT,SUN", "2026-12-26 09:30:10", "2026-12-28 00:00:00"),
        ("* * * * SAT,SUN", "2026-12-25 09:30:10", None),
        ("* 9 * * *", "2026-12-25 09:30:10", "2026-12-25 10:00:00"),
        ("30 9 * * *", "2026-12-25 09:30:10", "2026-12-25 09:31:00"),
        ("30 9 * * *", "2026-12-25 09:31:00", None),
        ("*/5 * * * *", "2026-12-25 09:30:10", "2026-12-25 09:31:00"),
        ("10 30 9 * * *", "2026-12-25 09:30:10", "2026-12-25 09:30:11"),
        ("* 30 9 * * *", "2026-12-25 09:30:10", "2026-12-25 09:31:00"),
        ("11 30 9 * * *", "2026-12-25 09:30:10", None),
        ("* * LW * *", "2026-12-31 09:30:10", "2027-01-01 00:00:00"),
        ("0-59 9-11,13 * * *", "2026-12-25 09:30:10", "2026-12-25 12:00:00"),
        ("*/1 22-23 * * *", "2026-12-25 22:30:10", "2026-12-26 00:00:00"),
        ("*/1 */1 * * SAT,SUN", "2026-12-26 09:30:10", "2026-12-28 00:00:00"),
        ("30-39 9 * * *", "2026-12-25 09:31:10", "2026-12-25 09:40:00"),
        ("30-59 9 * * *", "2026-12-25 09:31:10", "2026-12-25 10:00:00"),
        ("10-19,30 30 9 * * *", "2026-12-25 09:30:10", "2026-12-25 09:30:20"),
        ("50-59 30 9 * * *", "2026-12-25 09:30:55", "2026-12-25 09:31:00"),
        ("* * 28-31 11 ?", "2026-11-28 09:30:10", "2026-12-01 00:00:00"),
        ("* * 15W,25 * *", "2026-12-25 09:30:10", "2026-12-26 00:00:00"),
        ("* * 15W,25 * *", "2026-11-16 09:30:10", "2026-11-17 00:00:00"),
        ("* * 15W,25 * *", "2026-11-15 09:30:10", None),
        ("@daily", "2026-12-31 00:00:59", "2026-12-31 00:01:00"),
    ],
)
def test_the_end_of_an_exclusion(exclusion, instant, end):
    """
    `end` returns the first second, minute, hour or day after an exclusion, or None if the instant is not excluded.
    """
    found = Exclusion.parse(exclusion, "Europe/Berlin").end(ms(instant) + 999)
    assert found == (None if end is None else ms(end))


@pytest.mark.parametrize(
    ("line", "exclusion", "end"),
    [
        ("*/5 * * * *", "*/5 * * * SAT,SUN", "2026-12-28 00:00:00"),
        ("*/5 * * * *", "*/10 * * * SAT,SUN", "2026-12-26 09:35:00"),
        ("0,30 9-17 * * *", "30 9-12 * * SAT", "2026-12-26 10:00:00"),
        ("30 9-17 * * *", "30 9-12 * * SAT", "2026-12-26 13:00:00"),
        ("*/10 * * * * *", "*/10 30-34 * * * *", "2026-12-26 09:35:00"),
    ],
)
def test_the_end_of_an_exclusion_by_a_line(line, exclusion, end):
    """
    For an exclusion by a cron line, `end` returns the first run of the series that the exclusion does not cover.
    """
    found = Exclusion.parse(exclusion, "Europe/Berlin").end(
        ms("2026-12-26 09:30:00"), Cron.parse(line, "Europe/Berlin")
    )
    assert found == ms(end)


def left(exclusion, tz, start, hours=8):
    """
    Return two lists of the runs of a series: those that *exclusion* does not exclude, and all of them.

    The series runs every ten minutes in the zone *tz*, for *hours* from *start*.
    """
    series = Cron.parse("*/10 * * * *", tz)
    first = int(datetime.fromisoformat(start).timestamp()) * 1000
    last, excluded = first + hours * 3_600_000, Exclusion.parse(exclusion, tz)
    everything, found, after = [], [], first - 1
    while (instant := series.next(after)) < last:
        everything.append(instant)
        after = instant
    after = first - 1
    while (instant := series.next(after)) < last:
        end = excluded.end(instant, series)
        if end is None:
            found.append(instant)
        after = instant if end is None else end - 1
    shown = [[datetime.fromtimestamp(each / 1000, ZoneInfo(tz)) for each in some] for some in (found, everything)]
    return shown[0], shown[1]


@pytest.mark.parametrize(
    ("exclusion", "is_named"),
    [
        ("50 2 * * *", lambda wall: (wall.hour, wall.minute) == (2, 50)),
        ("30-59 2 * * *", lambda wall: wall.hour == 2 and wall.minute >= 30),
        ("* 2 * * *", lambda wall: wall.hour == 2),
        ("* 1 * * *", lambda wall: wall.hour == 1),
        ("40 1 * * *", lambda wall: (wall.hour, wall.minute) == (1, 40)),
        ("50 23 * * *", lambda wall: (wall.hour, wall.minute) == (23, 50)),
        ("* * * * SAT", lambda wall: wall.weekday() == 5),
        ("* * * * SUN", lambda wall: wall.weekday() == 6),
        ("2026-10-24", lambda wall: wall.date() == date(2026, 10, 24)),
    ],
)
@pytest.mark.parametrize(
    ("tz", "start"),
    [
        ("Europe/Zurich", "2026-10-24T22:00Z"),
        ("Europe/Zurich", "2026-03-28T22:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T12:00Z"),
        ("Asia/Beirut", "2026-10-24T18:00Z"),
        ("America/St_Johns", "2010-11-06T23:00Z"),  # the clock is set back from 00:01 to 23:01
    ],
)
def test_exclusions_around_clock_changes(tz, start, exclusion, is_named):
    """
    Around a clock change, exactly the wall-clock times that the exclusion names are excluded, even if they occur twice.
    """
    found, everything = left(exclusion, tz, start)
    assert found == [wall for wall in everything if not is_named(wall)]


def test_runs_that_a_gap_moves():
    """
    A run in a gap takes place when the gap ends, even if an exclusion covers the skipped time.
    """
    night = Cron.parse("30 1,2 * * *", "Europe/Zurich")
    excluded = Exclusion.parse("30 1-2 * * SUN", "Europe/Zurich")
    end = excluded.end(int(datetime.fromisoformat("2026-03-29T00:30Z").timestamp()) * 1000, night)
    assert end == int(datetime.fromisoformat("2026-03-29T01:00Z").timestamp()) * 1000


def test_the_canonical_text():
    """
    The canonical text of an exclusion is parsed to the same exclusion.
    """
    for text, canonical in (
        (" 2026-12-25 ", "2026-12-25"),
        ("2026-12-25/2026-12-25", "2026-12-25"),
        ("2026-12-24/2027-01-02", "2026-12-24/2027-01-02"),
        ("* *  * * sat,sun", "* * * * SAT,SUN"),
        ("@daily", "0 0 * * *"),
    ):
        exclusion = Exclusion.parse(text, "Europe/Berlin")
        assert str(exclusion) == canonical
        assert Exclusion.parse(canonical, "Europe/Berlin") == exclusion


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("christmas", "exclude is 'christmas': pass a day such as '2026-12-25'"),
        ("2026-13-01", "exclude is '2026-13-01'"),
        ("2026-12-26/2026-12-25", "its last day is before its first"),
        ("0001-01-01/9999-12-31", "no day is after its last one"),
        ("2026-12-26/", "exclude is '2026-12-26/'"),
        ("", "exclude is ''"),
        (5, "exclude is 5"),
        (None, "exclude is None"),
        (datetime(2026, 12, 25, tzinfo=BERLIN), "exclude is datetime"),
        ("2026-W52", "pass a day such as '2026-12-25'"),
        ("2026-12-21/2026-W53", "pass a day such as '2026-12-25'"),
        ("* * * * FUNDAY", "its day-of-week field 'FUNDAY' cannot be read"),
        ("TZ=Asia/Tokyo * * * * SAT", "give the zone once"),
    ],
)
def test_exclusions_that_cannot_be_parsed(text, says):
    """
    An exclusion that cannot be parsed is refused, and the error has the value and the accepted forms.
    """
    with pytest.raises(RecurrenceError) as caught:
        Exclusion.parse(text, "Europe/Berlin")
    assert says in str(caught.value)


def test_a_line_of_another_zone():
    """
    An exclusion line that names a zone is refused if the series has a different zone, even if one of the zones is UTC.
    """
    line = "TZ=Asia/Tokyo * 0-5 * * *"
    with pytest.raises(RecurrenceError, match="the zone of tz=, 'UTC' here: pass tz='Asia/Tokyo'"):
        Exclusion.parse(line)
    assert Exclusion.parse(line, "Asia/Tokyo") == Exclusion.parse("* 0-5 * * *", "Asia/Tokyo")


@pytest.mark.parametrize("tz", ["Mars", "localtime", "", None])
def test_days_with_an_unknown_zone(tz):
    """
    An excluded day with an unknown zone is refused.
    """
    with pytest.raises(RecurrenceError, match="pass an IANA zone"):
        Exclusion.parse("2026-12-25", tz)
