"""
The proof of the calendar: real cron lines compared with croniter, and every zone through all clock changes of a year.

    python tests/prove/crons.py [--firings 1000] [--year 2026]

Each difference from croniter must belong to a documented class (docs/decisions/cron-calendar.md):

    overlap   croniter fires again in the second pass of a doubled hour; tickwheel fires once
    gap       croniter fires an hour later or skips instants in a lost hour; tickwheel fires when the hour has passed
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import zoneinfo
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from croniter import croniter

from tickwheel.calendar import Cron
from tickwheel.calendar._zones import first_change

__all__ = ["changes", "compare", "real_lines", "wrong_around"]

SOURCE = Path(__file__).parents[3] / "shared" / "traces" / "github_workflow_crons_2021.json"
AFTER = 1_700_000_000
HOUR_S = 3_600
ZONES = ("UTC", "America/New_York", "Australia/Lord_Howe")
DAILY = ("0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "30 2 * * *", "0 3 * * *", "59 23 * * *")
HOURLY = ("*/15 * * * *", "0 * * * *")


def real_lines() -> list[str]:
    """
    Return all cron lines in the file `SOURCE`, including repeated lines.
    """
    repositories = json.loads(SOURCE.read_text())
    return [cron["cron"] for files in repositories.values() for crons in files.values() for cron in crons]


def compare(line: str, zone: ZoneInfo, firings: int) -> tuple[Counter[str], list[str]]:
    """
    Compare the next *firings* instants of a cron line with croniter's.

    Return the number of differences of each documented class, and a list of other differences.
    """
    ours = set(_ours(line, zone, firings))
    theirs = set(_theirs(line, zone, firings))
    end = min(max(ours), max(theirs))
    classes: Counter[str] = Counter()
    unexplained: list[str] = []
    for instant in sorted(ours ^ theirs):
        if instant > end:
            continue
        found = _class_of(instant, zone, is_ours=instant in ours)
        if found is None:
            who = "we" if instant in ours else "croniter"
            unexplained.append(f"{line!r} in {zone.key}: only {who} at {datetime.fromtimestamp(instant, zone)}")
        else:
            classes[found] += 1
    return classes, unexplained


def _class_of(instant: int, zone: ZoneInfo, *, is_ours: bool) -> str | None:
    moment = datetime.fromtimestamp(instant, zone)
    if not is_ours and moment.fold == 1:
        return "overlap"
    change = first_change(zone, instant - 2 * HOUR_S, instant + 1)
    if change is not None and _is_gap(change, zone):
        return "gap"
    return None


def _is_gap(change: int, zone: ZoneInfo) -> bool:
    before, after = (datetime.fromtimestamp(at, zone).utcoffset() or timedelta() for at in (change - 1, change))
    return after > before


def _ours(line: str, zone: ZoneInfo, count: int) -> list[int]:
    found, after = [], AFTER * 1000
    cron = Cron.parse(line, zone.key)
    for _ in range(count):
        following = cron.next(after)
        assert following is not None
        assert following > after, line
        after = following
        found.append(after // 1000)
    return found


def _theirs(line: str, zone: ZoneInfo, count: int) -> list[int]:
    series = croniter(line.replace("?", "*"), datetime.fromtimestamp(AFTER, zone))
    return [int(series.get_next(float)) for _ in range(count)]


def changes(zone: ZoneInfo, year: int) -> list[int]:
    start, end = (int(datetime(each, 1, 1, tzinfo=UTC).timestamp()) for each in (year, year + 1))
    found: list[int] = []
    while (following := first_change(zone, start, end)) is not None:
        start = following
        found.append(start)
    return found


def wrong_around(change: int, zone: ZoneInfo) -> list[str]:
    """
    Return the faults that daily and hourly lines have around *change*, a clock change of the zone.
    """
    found: list[str] = []
    noon = datetime.fromtimestamp(change, zone).replace(hour=12, minute=0, second=0) - timedelta(days=2)
    start = int(noon.timestamp()) * 1000
    end = int((noon + timedelta(days=4)).timestamp()) * 1000
    for line in DAILY:
        instants = _between(line, zone, start, end)
        # A match in a gap at the end of the day fires at midnight, and belongs to the day before.
        days = [{datetime.fromtimestamp(each / 1000 - back, zone).date() for each in instants} for back in (0, 1)]
        gaps = [(later - earlier) / 3_600_000 for earlier, later in itertools.pairwise(instants)]
        if len(instants) != 4 or max(map(len, days)) != 4 or not all(22 <= gap <= 26 for gap in gaps):
            found.append(f"{line!r} in {zone.key}: {instants}")
    for line, beat in zip(HOURLY, (900_000, 3_600_000), strict=True):
        instants = _between(line, zone, start, end)
        steps = {later - earlier for earlier, later in itertools.pairwise(instants)}
        # In zones that change by less than an hour, one step is short and one is long, and nothing is omitted for
        # longer.
        if max(steps) > beat + HOUR_S * 1000 / 2 or min(steps) <= 0:
            found.append(f"{line!r} in {zone.key}: steps of {sorted(steps)} ms")
    return found


def _between(line: str, zone: ZoneInfo, start: int, end: int) -> list[int]:
    cron, found, after = Cron.parse(line, zone.key), [], start
    while (following := cron.next(after)) is not None and following <= end:
        assert following > after, (line, zone.key)
        found.append(following)
        after = following
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--firings", type=int, default=1000)
    parser.add_argument("--year", type=int, default=2026)
    options = parser.parse_args()
    lines = Counter(real_lines())
    classes: Counter[str] = Counter()
    wrong: list[str] = []
    for name in ZONES:
        for line in sorted(lines):
            found, unexplained = compare(line, ZoneInfo(name), options.firings)
            classes.update({f"{name} {kind}": count for kind, count in found.items()})
            wrong += unexplained
    seen = 0
    zones = sorted(zoneinfo.available_timezones())
    for name in zones:
        for change in changes(ZoneInfo(name), options.year):
            seen += 1
            wrong += wrong_around(change, ZoneInfo(name))
    for each in wrong[:20]:
        print(f"  {each}", file=sys.stderr)
    known = ", ".join(f"{kind} {count}" for kind, count in sorted(classes.items()))
    print(
        f"{lines.total()} lines, {options.firings} firings in {len(ZONES)} zones, "
        f"known differences: {known or 'none'}; "
        f"{len(zones)} zones, {seen} changes; wrong {len(wrong)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
