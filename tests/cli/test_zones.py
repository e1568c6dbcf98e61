"""
Time zones for `--at`, `--until` and `--since`, and in the columns of a table.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from years import YEAR


def due(run, key):
    """
    Return the due time of the job *key*.
    """
    return json.loads(run("get", key, "--json").stdout)["due_at"]


@pytest.mark.parametrize("first", ["--tz", "--at"])
def test_a_time_is_read_in_its_zone(run, first):
    """
    A time without a UTC offset is read in the given zone, whatever the order of the options.
    """
    options = {"--at": f"{YEAR}-12-24 09:00", "--tz": "Asia/Tokyo"}
    given = [word for name in sorted(options, key=lambda each: each != first) for word in (name, options[name])]
    assert run("set", "once", *given, "--target", "log").returncode == 0
    assert due(run, "once") == f"{YEAR}-12-24T00:00:00Z"
    assert run("set", "every", "--every", "1d", *given, "--target", "log").returncode == 0
    assert due(run, "every") == f"{YEAR}-12-24T00:00:00Z"
    assert run("set", "cron", "--cron", "0 10 * * *", *given, "--target", "log").returncode == 0
    assert due(run, "cron") == f"{YEAR}-12-24T01:00:00Z"
    assert run("move", "once", "--at", f"{YEAR}-12-25T09:00", "--tz", "America/New_York").returncode == 0
    assert due(run, "once") == f"{YEAR}-12-25T14:00:00Z"


def test_an_end_is_read_in_its_zone(run):
    """
    `--until` is read in the given zone, like `--at`.

    This holds for `set`, `change` and `schedule next`.
    """
    zone = ("--tz", "America/New_York")
    run("set", "k", "--cron", "0 9 * * *", "--until", f"{YEAR}-12-24 09:00", *zone, "--target", "log")
    until = json.loads(run("get", "k", "--json").stdout)["recurrence"]["until"]
    assert json.loads(run("export").stdout)["until"] == f"{YEAR}-12-24T14:00:00.000+00:00", until
    answer = run("schedule", "next", "0 9 * * *", *zone, "--until", "2000-01-01 09:00")
    assert "no run is due until then" in answer.stderr


@pytest.mark.parametrize(
    "given",
    [
        ("set", "k", "--delay", "1h", "--target", "log"),
        ("set", "k", "--at", f"{YEAR}-12-24T09:00+01:00", "--target", "log"),
        ("set", "k", "--at", f"{datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()}", "--target", "log"),
        ("move", "k", "--delay", "1h"),
        ("move", "k", "--at", f"{YEAR}-12-24T09:00Z"),
    ],
)
def test_a_zone_without_a_time_is_refused(run, given):
    """
    A zone is refused if there is no time to which it applies, or if it is unknown.
    """
    answer = run(*given, "--tz", "Europe/Berlin")
    assert answer.returncode == 2
    assert "--tz Europe/Berlin is not the zone of anything here" in answer.stderr
    assert run(*given, "--tz", "Mars/Base").returncode == 2


def test_times_in_the_past(run):
    """
    A time in the past is refused unless `--now` is given.

    The start of a recurring job may be in the past.
    """
    answer = run("set", "k", "--at", "2001-01-01T09:00", "--target", "log")
    assert answer.returncode == 2
    assert "ago: pass --now to run it at once" in answer.stderr
    assert run("set", "k", "--at", "2001-01-01T09:00", "--now", "--target", "log").returncode == 0
    assert run("set", "s", "--every", "1d", "--at", "2001-01-01T09:00", "--target", "log").returncode == 0


def test_columns(run):
    """
    A table may have a column for a time and a column for its zone.
    """
    table = f"key,at,tz,cron,target\na,{YEAR}-12-24 09:00,Asia/Tokyo,,log\nb,,Asia/Tokyo,0 9 * * *,log\n"
    assert run("import", "csv", "-", stdin=table).stdout == "imported 2 jobs\n"
    assert due(run, "a") == f"{YEAR}-12-24T00:00:00Z"
    answer = run("import", "csv", "-", stdin="key,delay,tz,target\nc,1h,Asia/Tokyo,log\n")
    assert "line 2: tz is 'Asia/Tokyo': it is the zone of nothing here" in answer.stderr
    answer = run("import", "csv", "-", stdin="key,delay,max_runs,target\nc,1h,3,log\n")
    assert "pass the column every or the column cron" in answer.stderr


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_key_that_appears_twice(run, form):
    """
    If two lines have the same key, the import is refused, and the error names both lines.
    """
    jsonl = '{"key": "a", "delay": 9, "target": "log"}\n\n{"key": "a", "delay": 10, "target": "log"}\n'
    text = jsonl if form == "jsonl" else "key,delay,target\na,9,log\na,10,log\n"
    answer = run("import", form, "-", stdin=text)
    assert answer.returncode == 2
    lines = (1, 3) if form == "jsonl" else (2, 3)
    assert f"line {lines[1]}: key is 'a': line {lines[0]} has it already" in answer.stderr
    assert run("list").stdout == ""
