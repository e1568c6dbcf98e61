"""
Clock changes in difficult zones: local times that are skipped (gaps), and local times that come twice (overlaps).
"""

import itertools
import os
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar._zones import first_change
from tickwheel.jobs.recurrence import Cron, Misfire, Recurrence

HOUR_MS = 3_600_000


def walls(line, tz, start, count):
    """
    Return the next *count* firings of *line* after the local time *start*, as wall-clock texts with offsets.
    """
    zone = ZoneInfo(tz)
    after = int(datetime.fromisoformat(start).replace(tzinfo=zone).timestamp()) * 1000
    found = []
    for _ in range(count):
        after = Cron.parse(line, tz).next(after)
        found.append(datetime.fromtimestamp(after / 1000, zone).strftime("%m-%d %H:%M%z"))
    return found


def test_gap_once_a_day():
    """
    A nightly job whose time falls in a gap fires when the gap ends, and on the next night at its own time.
    """
    found = walls("30 2 * * *", "Europe/Berlin", "2025-03-29T12:00", 2)
    assert found == ["03-30 03:00+0200", "03-31 02:30+0200"]


def test_overlap_once_a_day():
    """
    A nightly job whose time occurs twice fires only the first time.
    """
    found = walls("30 2 * * *", "Europe/Berlin", "2025-10-25T12:00", 2)
    assert found == ["10-26 02:30+0200", "10-27 02:30+0100"]


def test_a_search_that_starts_in_an_overlap():
    """
    If a search starts in the second pass of a repeated hour, the next firing is on the next day.
    """
    zone = ZoneInfo("Europe/Berlin")
    second_pass = datetime(2025, 10, 26, 2, 10, tzinfo=zone, fold=1)
    found = Cron.parse("30 2 * * *", zone.key).next(int(second_pass.timestamp()) * 1000)
    assert datetime.fromtimestamp(found / 1000, zone).isoformat() == "2025-10-27T02:30:00+01:00"


def test_a_starred_hour_follows_real_time():
    """
    A cron line with the hour `*` follows elapsed time: `*/30 * * * *` fires every 30 minutes even when clocks change.
    """
    for start in ("2025-03-30T00:00", "2025-10-26T00:00"):
        zone = ZoneInfo("Europe/Berlin")
        after = int(datetime.fromisoformat(start).replace(tzinfo=zone).timestamp()) * 1000
        for _ in range(12):
            found = Cron.parse("*/30 * * * *", zone.key).next(after)
            assert found - after == 1_800_000
            after = found


def test_midnight_in_a_gap():
    """
    If the gap begins at midnight, a line of six fields still fires at one o'clock of that day.
    """
    found = walls("0 0 1 4 NOV ?", "America/Sao_Paulo", "2018-11-01T00:00", 1)
    assert found == ["11-04 01:00-0200"]


def test_a_day_that_never_was():
    """
    Samoa skipped 30 December 2011. The noon job of that day fires when 31 December begins.
    """
    found = walls("0 12 * * *", "Pacific/Apia", "2011-12-29T11:00", 3)
    assert found == ["12-29 12:00-1000", "12-31 00:00+1400", "12-31 12:00+1400"]


@pytest.mark.parametrize(
    ("zone", "first", "left_out"),
    [
        ("Pacific/Apia", "2011-12-29T13:00", "2011-12-31 00:00"),
        ("Pacific/Kwajalein", "1993-08-20T13:00", "1993-08-22 00:00"),
    ],
)
def test_the_misfire_rule_of_a_day_that_never_was(zone, first, left_out):
    """
    The misfire rule decides whether a run on a day that the calendar skips takes place when the next day begins.
    """
    after = int(datetime.fromisoformat(first).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    for misfire in Misfire:
        due_at = Recurrence(Cron.parse("0 12 * * *", zone), misfire).next("key", after)
        wall = datetime.fromtimestamp(due_at / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
        assert wall == (left_out if misfire is not Misfire.SKIP else left_out.replace("00:00", "12:00"))


def test_a_run_in_a_lost_hour_is_not_missed():
    """
    A run in an hour that daylight saving skips does not count as missed.
    """
    after = int(datetime(2026, 3, 29, 0, 0, tzinfo=UTC).timestamp() * 1000)
    for misfire in Misfire:
        due_at = Recurrence(Cron.parse("30 2 * * *", "Europe/Berlin"), misfire).next("key", after)
        assert due_at == int(datetime(2026, 3, 29, 1, 0, tzinfo=UTC).timestamp() * 1000)


def changes(zone, year):
    """
    Return the instants of *year* at which the offset of *zone* changes.
    """
    start, end = (int(datetime(y, 1, 1, tzinfo=UTC).timestamp()) for y in (year, year + 1))
    found = []
    while (start := first_change(zone, start, end)) is not None:
        found.append(start)
    return found


SMALL_HOURS = ("0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "30 2 * * *", "0 3 * * *", "59 23 * * *")


@pytest.mark.slow
def test_every_zone():
    """
    In 2026, a daily job fires exactly once a day around every clock change of every zone.
    """
    seen = 0
    for name in sorted(zoneinfo.available_timezones()):
        zone = ZoneInfo(name)
        for change in changes(zone, 2026):
            seen += 1
            noon = datetime.fromtimestamp(change, zone).replace(hour=12, minute=0, second=0) - timedelta(days=2)
            for line in SMALL_HOURS:
                instants = [int(noon.timestamp()) * 1000]
                for _ in range(4):
                    instants.append(Cron.parse(line, name).next(instants[-1]))
                end = noon + timedelta(days=4)
                assert instants[-1] < end.timestamp() * 1000, (name, line)
                assert Cron.parse(line, name).next(instants[-1]) > end.timestamp() * 1000, (name, line)
                apart = [later - earlier for earlier, later in itertools.pairwise(instants[1:])]
                assert all(22 * HOUR_MS <= gap <= 26 * HOUR_MS for gap in apart), (name, line, apart)
    assert seen > 100


WITHOUT_ZONES = """
import sys
sys.modules["tzdata"] = None
from datetime import UTC, datetime
from tickwheel.calendar.zone import check_zone, zone_of
from tickwheel.errors import RecurrenceError
from tickwheel.scheduler import Scheduler

utc = zone_of("UTC")
assert (datetime(2040, 7, 1, tzinfo=utc), str(utc)) == (datetime(2040, 7, 1, tzinfo=UTC), "UTC")
with Scheduler("memory://") as scheduler:
    print(scheduler.set("k", every="1m", exclude=["2040-01-01"], handler="h").outcome)
try:
    check_zone("Europe/Berlin")
except RecurrenceError as error:
    print(error)
"""
"""A script that simulates a system without time zones, such as Windows."""


def test_without_a_database_of_zones():
    """
    Without a zone database, UTC and intervals work. For another zone, the error says what to install.
    """
    command = [sys.executable, "-P", "-c", WITHOUT_ZONES]
    answer = subprocess.run(command, env={**os.environ, "PYTHONTZPATH": ""}, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [
        "created",
        "tz is 'Europe/Berlin': this system has no zones but 'UTC': install some, as 'pip install tzdata' does",
    ]
