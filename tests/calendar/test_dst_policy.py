"""
Cron lines with explicit policies for gaps and overlaps, compared with a slow search that checks every five minutes.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Cron, DstGap, DstOverlap

ZONES = {
    "Europe/Berlin": ("2026-03-29", "2026-10-25"),
    "Australia/Lord_Howe": ("2026-10-04", "2026-04-05"),
    "Africa/Cairo": ("2026-04-24", "2026-10-30"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "Pacific/Apia": ("2011-12-30", "2011-04-02"),
}
"""For each zone, a day on which its clock is set forward, and a day on which its clock is set back."""
STEP = 300
STEPS = 12 * 54


@cache
def clock(zone, start):
    """
    Return the instants from *start* on, with the wall clock of *zone*.

    Each entry has the instant, the hour and minute, 1 in the second pass of a repeated hour, True if the time is shown
    twice, and the minutes of the day that were skipped just before.
    """
    found, before = [], datetime.fromtimestamp(start - STEP, zone)
    for instant in range(start, start + STEPS * STEP, STEP):
        shown = datetime.fromtimestamp(instant, zone)
        is_twice = shown.replace(fold=1 - shown.fold).utcoffset() != shown.utcoffset()
        jump = int((shown.utcoffset() - before.utcoffset()).total_seconds() // 60)
        last = (shown.hour * 60 + shown.minute) or 24 * 60
        lost = {each % 1440 for each in range(last - jump, last)}
        found.append((instant, (shown.hour, shown.minute), shown.fold, is_twice and jump <= 0, lost))
        before = shown
    return found


def oracle(line, zone, start, gap, overlap):
    """
    Return the instants of *line* from *start* on, found by checking every fifth minute.
    """
    minutes, hours = ({int(each) for each in field.split(",")} for field in line.split()[:2])
    found = []
    for instant, (hour, minute), fold, is_twice, lost in clock(zone, start):
        wanted = not is_twice or overlap is DstOverlap.BOTH or fold == (overlap is DstOverlap.SECOND)
        is_made_up = gap is DstGap.END and any(60 * hour + minute in lost for hour in hours for minute in minutes)
        if (hour in hours and minute in minutes and wanted) or is_made_up:
            found.append(instant)
    return found


@pytest.mark.parametrize("gap", DstGap)
@pytest.mark.parametrize("overlap", DstOverlap)
@pytest.mark.parametrize("zone", ZONES)
def test_policies(zone, overlap, gap):
    """
    With every pair of a gap policy and an overlap policy, a line has exactly the runs that the oracle finds.
    """
    draw = random.Random(f"{zone}{overlap}{gap}")
    for day in ZONES[zone]:
        start = int(datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()) - 86_400
        for _ in range(3):
            minutes = sorted(draw.sample(range(0, 60, 5), draw.randint(1, 3)))
            hours = sorted(draw.sample(range(24), draw.randint(1, 12)))
            line = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
            cron = replace(Cron.parse(line, zone), dst_gap=gap, dst_overlap=overlap)
            expected, after, found = oracle(line, ZoneInfo(zone), start, gap, overlap), (start - 1) * 1000, []
            while len(found) < len(expected):
                after = cron.next(after)
                found.append(after // 1000)
            assert found == expected, line
            assert cron.next(after) // 1000 >= start + STEPS * STEP


@pytest.mark.parametrize("line", ["30 2 * * *", "0,30 1-3 * * *", "*/15 * * * *", "0 */20 1,2 * * *", "15 2 29 3 *"])
def test_a_policy_that_is_the_usual_one(line):
    """
    A line that spells out the default policies has the same times and the same `meaning` as a line without policies.
    """
    cron = Cron.parse(line, "Europe/Berlin")
    usual = (DstGap.SKIP, DstOverlap.BOTH) if cron.is_literal else (DstGap.END, DstOverlap.FIRST)
    given = replace(cron, dst_gap=usual[0], dst_overlap=usual[1])
    assert given.meaning == cron.meaning
    for start in ("2026-03-28T20:00+00:00", "2026-10-24T20:00+00:00"):
        first = second = int(datetime.fromisoformat(start).timestamp() * 1000)
        for _ in range(60):
            first, second = cron.next(first), given.next(second)
            assert first == second


def test_another_policy_is_another_meaning():
    """
    A line with a different policy has a different `meaning`, so setting it starts a new series.
    """
    cron = Cron.parse("30 2 * * *", "Europe/Berlin")
    others = [replace(cron, dst_gap=DstGap.SKIP), replace(cron, dst_overlap=DstOverlap.BOTH)]
    assert len({each.meaning for each in (cron, *others)}) == 3


def test_a_line_whose_every_run_is_in_a_gap():
    """
    A yearly run in a gap takes place when the gap ends (gap policy "end") or in a later year ("skip").
    """
    cron = Cron.parse("30 2 29 3 *", "Europe/Berlin")
    after = int(datetime(2026, 3, 28, tzinfo=UTC).timestamp() * 1000)
    skipped, made_up = replace(cron, dst_gap=DstGap.SKIP), replace(cron, dst_gap=DstGap.END)
    assert datetime.fromtimestamp(made_up.next(after) / 1000, UTC).isoformat() == "2026-03-29T01:00:00+00:00"
    assert datetime.fromtimestamp(skipped.next(after) / 1000, UTC).isoformat() == "2027-03-29T00:30:00+00:00"
