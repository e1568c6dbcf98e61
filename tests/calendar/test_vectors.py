"""
The 62 test vectors of robfig/cron, and the 978 real lines of the shared traces.
"""

import csv
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tickwheel.calendar import Cron
from tickwheel.errors import RecurrenceError

TRACES = Path(__file__).parents[3] / "shared" / "traces"

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="../shared/traces is absent")


def vectors():
    """
    Return the rows of the vector file, or an empty list if the file does not exist.
    """
    path = TRACES / "cron_vectors_robfig.csv"
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def instant(text):
    """
    Parse an instant in one of the two notations of the vector file.
    """
    text = re.sub(r"^TZ=\S+ ", "", text)
    if text[0].isdigit():
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
    text = text.partition(" ")[2]
    notation = "%b %d %H:%M:%S %Y" if text.count(":") > 1 else "%b %d %H:%M %Y"
    return datetime.strptime(text, notation).replace(tzinfo=UTC)


def zone_of(row):
    """
    Return the zone of a row: the zone that the row names, or else the zone of its offset.
    """
    named = re.match(r"TZ=(\S+) ", row["from"])
    return named[1] if named else "Asia/Kolkata" if "+0530" in row["from"] else "UTC"


@needs_traces
@pytest.mark.parametrize("row", vectors(), ids=lambda row: f"{row['from']}|{row['expr']}")
def test_vector(row):
    """
    The next time of each line is the same as in robfig/cron. If robfig/cron finds no next time, the line is refused.
    """
    if not row["next"]:
        with pytest.raises(RecurrenceError, match="never fires"):
            Cron.parse(row["expr"], zone_of(row))
        return
    found = Cron.parse(row["expr"], zone_of(row)).next(int(instant(row["from"]).timestamp()) * 1000)
    assert found == instant(row["next"]).timestamp() * 1000


@needs_traces
def test_every_vector_is_run():
    """
    The vector file has 62 vectors.
    """
    assert len(vectors()) == 62


@needs_traces
def test_real_lines():
    """
    All 978 cron lines that people have written for their workflows are accepted, and have a next time.
    """
    repositories = json.loads((TRACES / "github_workflow_crons_2021.json").read_text())
    lines = [cron["cron"] for files in repositories.values() for crons in files.values() for cron in crons]
    assert len(lines) == 978
    after = 1_636_000_000_000
    assert all((Cron.parse(line).next(after) or 0) > after for line in lines)
