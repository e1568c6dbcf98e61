"""
What a series leaves out: days of a zone, and what a second cron line names, by what the wall clock shows.
"""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Cron, Exclusion
from tickwheel.errors import RecurrenceError

BERLIN = ZoneInfo("Europe/Berlin")


def ms(text, fold=0):
    """
    Return the instant at which Berlin's wall clock shows *text*.
    """
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()) * 1000


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
def test_until_when(exclusion, instant, end):
    """
    What is excluded is so until the first second, minute, hour or day that is not, however its field is written.
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
def test_until_when_a_line_is_left_out(line, exclusion, end):
    """
    Between the times of a line nothing needs to be excluded.
    """
    found = Exclusion.parse(exclusion, "Europe/Berlin").end(
        ms("2026-12-26 09:30:00"), Cron.parse(line, "Europe/Berlin")
    )
    assert found == ms(end)


@pytest.mark.parametrize("fold", [0, 1])
def test_an_hour_that_comes_twice(fold):
    """
    The hour that clocks repeat is excluded both times, and a search never goes back in it.
    """
    instant = ms("2026-10-25 02:30:00", fold)
    for line in ("* 2 * * *", "30 2 * * *"):
        end = Exclusion.parse(line, "Europe/Berlin").end(instant)
        assert instant < end <= ms("2026-10-25 03:00:00")


def test_the_text():
    """
    The canonical text is read as the same exclusion.
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
        ("* * * * FUNDAY", "its day-of-week field 'FUNDAY' cannot be read"),
        ("TZ=Asia/Tokyo * * * * SAT", "give the zone once"),
    ],
)
def test_bad_ones(text, says):
    """
    What cannot be read is refused, with the value and what is taken.
    """
    with pytest.raises(RecurrenceError) as caught:
        Exclusion.parse(text, "Europe/Berlin")
    assert says in str(caught.value)


@pytest.mark.parametrize("tz", ["Mars", "localtime", "", None])
def test_bad_zones(tz):
    """
    A day of no zone is refused.
    """
    with pytest.raises(RecurrenceError, match="pass an IANA zone"):
        Exclusion.parse("2026-12-25", tz)
