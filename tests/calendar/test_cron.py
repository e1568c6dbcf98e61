"""
The syntax of cron lines, and the errors for invalid lines.
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.calendar import Cron
from tickwheel.calendar._cron import ALIASES
from tickwheel.errors import RecurrenceError

REFUSED = {
    "0 0 31 2 *": "never fires, as no month of '2' has a day '31'",
    "0 0 31 4,6,9,11 *": "never fires",
    "0 0 0 30 FEB ?": "never fires, as no month of 'FEB' has a day '30'",
    "61 * * * *": "minute field '61' cannot be read: it takes 0-59",
    "* 24 * * *": "hour field '24'",
    "* * 0 * *": "day-of-month field '0'",
    "* * * FOO *": "month field 'FOO'",
    "* * * * MON-XXX": "day-of-week field 'MON-XXX'",
    "60 * * * * *": "second field '60'",
    "*/0 * * * *": "minute field '*/0'",
    "0 9 * * 5L/2": "day-of-week field '5L/2'",
    "0 0 9 */Z * MON": "day-of-month field '*/Z'",
    "? * * * *": "minute field '?'",
    "* * * *": "it has 4 fields",
    "9:00": "it has 1 field: write 5",
    "": "it has 0 fields",
    "@reboot": "the aliases are @yearly",
    "1," * 300 + "1 * * * *": "characters: a line has at most 500",
}


@pytest.mark.parametrize("line", REFUSED)
def test_invalid_lines(line):
    """
    A line that cannot be parsed, or that never fires, raises an error that names the wrong field.
    """
    with pytest.raises(RecurrenceError) as caught:
        Cron.parse(line)
    assert REFUSED[line] in str(caught.value)


@pytest.mark.parametrize(
    "tz", ["Mars/Olympus", "", "../etc", "Europe", "/etc/localtime", "localtime", "right/UTC", [], None]
)
def test_unknown_zone(tz):
    """
    An unknown zone is refused, and the error names it.
    """
    with pytest.raises(RecurrenceError, match="pass an IANA zone"):
        Cron.parse("0 9 * * *", tz)


@pytest.mark.parametrize(
    ("tz", "remedy"),
    [
        ("Asia/Kolkatta", "pass an IANA zone: did you mean 'Asia/Kolkata'?"),
        ("europe/zurich", "did you mean 'Europe/Zurich'?"),
        (" Europe/Zurich ", "did you mean 'Europe/Zurich'?"),
        ("America/New York", "did you mean 'America/New_York'?"),
        ("utc", "did you mean 'UTC'?"),
        ("Europe/Berln" + "n" * 60, "pass an IANA zone such as"),
        (ZoneInfo("Europe/Zurich"), "pass its name, 'Europe/Zurich'"),
    ],
)
def test_a_misspelt_zone(tz, remedy):
    """
    For a misspelt zone, the error suggests the zone that was probably meant.
    """
    with pytest.raises(RecurrenceError) as caught:
        Cron.parse("0 9 * * *", tz)
    assert remedy in str(caught.value)


def test_zone_in_the_line():
    """
    A cron line may begin with `TZ=` and a zone, which must not contradict the *tz* argument.
    """
    assert Cron.parse("CRON_TZ=Europe/Berlin 0 9 * * *").tz == "Europe/Berlin"
    assert Cron.parse("TZ=Europe/Berlin\t0\t9 * * *") == Cron("0 9 * * *", "Europe/Berlin")
    with pytest.raises(RecurrenceError, match="give the zone once"):
        Cron.parse("TZ=Europe/Berlin 0 9 * * *", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 jan ?"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * sun"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("0 0 ? * MON", "0 0 * * 1"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * MON/2", "0 0 * * MON,WED,FRI"),
        ("0 0 * jan-mar *", "0 0 * 1-3 *"),
        ("0 12 * * 5", "0 0 12 ? * FRI"),
    ],
)
def test_spellings(line, same):
    """
    Two spellings of one rule fire at the same instants.
    """
    after = 1_700_000_000_000
    for _ in range(30):
        found = Cron.parse(line).next(after)
        assert found == Cron.parse(same).next(after)
        after = found


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_aliases(alias):
    """
    Over two years, each alias, such as `@daily`, fires at the hours that cron's manual gives.
    """
    is_one = {
        "@yearly": lambda hour: (hour.month, hour.day, hour.hour) == (1, 1, 0),
        "@annually": lambda hour: (hour.month, hour.day, hour.hour) == (1, 1, 0),
        "@monthly": lambda hour: (hour.day, hour.hour) == (1, 0),
        "@weekly": lambda hour: (hour.isoweekday(), hour.hour) == (7, 0),
        "@daily": lambda hour: hour.hour == 0,
        "@midnight": lambda hour: hour.hour == 0,
        "@hourly": lambda _hour: True,
    }[alias]
    start = datetime(2023, 6, 1, tzinfo=ZoneInfo("Asia/Tokyo"))
    hours = [start + timedelta(hours=count) for count in range(1, 2 * 365 * 24)]
    expected = [int(hour.timestamp() * 1000) for hour in hours if is_one(hour)]
    found, after = [], int(start.timestamp() * 1000)
    for _ in expected[:1_000]:
        after = Cron.parse(alias, "Asia/Tokyo").next(after)
        found.append(after)
    assert found == expected[:1_000]


def test_dialects_differ_in_starred_day_steps():
    """
    With five fields, a line with `*/5` as the day and a weekday needs both to match. With six fields, it needs one.
    """
    july = 1_341_878_400_000  # 2012-07-10
    monday_the_sixth = 1_344_211_200_000
    wednesday_the_first = 1_343_779_200_000
    assert Cron.parse("0 0 */5 8 MON").next(july) == monday_the_sixth
    assert Cron.parse("0 0 0 */5 8 MON").next(july) == wednesday_the_first


def test_end_of_time():
    """
    After the year 9900 there is no next instant. The search returns None and raises no error.
    """
    assert Cron.parse("0 0 * * *").next(253_402_300_799_000) is None


@given(st.text(alphabet="0123456789*/-,?LW#MONFEB @=TZ\u0663", max_size=40))
def test_any_text(text):
    """
    Any text is either accepted as a line, or refused with a RecurrenceError.
    """
    try:
        cron = Cron.parse(text)
    except RecurrenceError:
        return
    assert cron.next(1_700_000_000_000) > 1_700_000_000_000
