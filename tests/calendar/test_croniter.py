"""
The times at which real cron lines fire, compared with the times that croniter computes.
"""

import json
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Cron

croniter = pytest.importorskip("croniter", reason="croniter is not installed: it is only compared with").croniter

SOURCE = Path(__file__).parents[3] / "shared" / "traces" / "github_workflow_crons_2021.json"
AFTER = 1_700_000_000

pytestmark = pytest.mark.skipif(not SOURCE.exists(), reason="../shared/traces is absent")


def lines():
    """
    Return the distinct cron lines of the file, sorted.
    """
    repositories = json.loads(SOURCE.read_text())
    return sorted({cron["cron"] for files in repositories.values() for crons in files.values() for cron in crons})


def ours(line, zone, count):
    """
    Return the next *count* instants of *line* that tickwheel computes, in seconds.
    """
    found, after = [], AFTER * 1000
    cron = Cron.parse(line, zone)
    for _ in range(count):
        after = cron.next(after)
        found.append(after // 1000)
    return found


def theirs(line, zone, count):
    """
    Return the next *count* instants of *line* that croniter computes, in seconds.
    """
    series = croniter(line.replace("?", "*"), datetime.fromtimestamp(AFTER, ZoneInfo(zone)))
    return [int(series.get_next(float)) for _ in range(count)]


@pytest.mark.slow
def test_utc():
    """
    In UTC, tickwheel and croniter agree on 100 firings of every line.
    """
    assert [line for line in lines() if ours(line, "UTC", 100) != theirs(line, "UTC", 100)] == []


def test_overlap_is_the_only_difference():
    """
    In an autumn night in New York, croniter fires lines in the repeated hour twice, and tickwheel fires them once.
    """
    zone = ZoneInfo("America/New_York")
    differing = [line for line in lines() if line.split()[1] == "1"]
    assert differing
    for line in differing:
        mine, other = ours(line, zone.key, 150), theirs(line, zone.key, 150)
        walls = [datetime.fromtimestamp(instant, zone).replace(tzinfo=None, fold=0) for instant in other]
        repeats = {instant for index, instant in enumerate(other) if walls[index] in walls[:index]}
        expected = [instant for instant in other if instant not in repeats]
        assert mine[: len(expected)] == expected
