"""
Calendar rules in every call that accepts them.

The rules have dates, sets of days, policies for clock changes, and zones.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, time
from time import tzset
from zoneinfo import ZoneInfo

import pytest
from years import YEAR

from tickwheel.cli.interchange import exported, request_of
from tickwheel.jobs.errors import InvalidJobError, InvalidRecurrenceError
from tickwheel.jobs.recurrence import FIELDS, Recurrence, renamed
from tickwheel.jobs.requests import SetRequest, trial
from tickwheel.jobs.unreadable import is_readable, unreadable_part
from tickwheel.scheduler import Outcome

NOW = int(datetime(2026, 11, 28, 12, tzinfo=UTC).timestamp() * 1000)
RULES = [
    (
        {"every": "3d", "time": "02:00", "tz": "Europe/Berlin"},
        {"every": 3 * 86_400, "time": time(2), "tz": "Europe/Berlin"},
    ),
    ({"every": "2w", "time": "9:30"}, {"every": "14 days", "time": "09:30:00", "tz": "Etc/UTC"}),
    (
        {"every": "1 month", "time": "00:00", "tz": "US/Eastern"},
        {"every": "P1M", "time": "0:00", "tz": "America/New_York"},
    ),
    (
        {"every": "1y", "time": "23:59:59"},
        {"every": "12 months", "time": "23:59:59", "dst_gap": "end", "dst_overlap": "first"},
    ),
    ({"cron": "0 9 13 * FRI", "day_match": "both"}, {"cron": "0 9 13 * 5", "day_match": "both"}),
    ({"cron": "0 9 13 * FRI"}, {"cron": "0 9 13 * 5", "day_match": "either"}),
    ({"cron": "0 9 * * FRI-MON"}, {"cron": "0 9 * * 0,1,5,6"}),
    ({"every": "1m", "pause_after": 3}, {"every": 60, "pause_after": 3}),
    ({"cron": "0 22-4/3 * * *"}, {"cron": "0 22,1,4 * * *"}),
    (
        {"cron": "30 2 * * *", "tz": "Europe/Berlin", "dst_gap": "skip"},
        {"cron": "30 2 * * *", "tz": "Europe/Berlin", "dst_gap": "skip", "dst_overlap": "first"},
    ),
    (
        {"cron": "*/5 * * * *", "tz": "Europe/Berlin", "dst_overlap": "first"},
        {"cron": "0-59/5 * * * *", "tz": "Europe/Berlin", "dst_gap": "skip", "dst_overlap": "first"},
    ),
]
"""Calendar rules, each with other spellings of the same rule."""
OTHERS = [
    {"every": "4d", "time": "02:00", "tz": "Europe/Berlin"},
    {"every": "3d", "time": "02:01", "tz": "Europe/Berlin"},
    {"every": "3d", "time": "02:00", "tz": "Europe/London"},
    {"every": "3d", "time": "02:00", "tz": "Europe/Berlin", "dst_gap": "skip"},
    {"every": "3d", "time": "02:00", "tz": "Europe/Berlin", "dst_overlap": "both"},
    {"every": "3 months", "time": "02:00", "tz": "Europe/Berlin"},
    {"every": "3d", "tz": "Europe/Berlin"},
    {"cron": "0 2 */3 * *", "tz": "Europe/Berlin"},
]


@pytest.fixture(params=["memory", "sqlite", "service"])
def client(request, make, tmp_path):
    """
    Return a scheduler that was not started, on each kind of store and on a service.
    """
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path / 'jobs.db'}"}
    return make(urls.get(request.param, lambda: request.getfixturevalue("service_url"))())


def rule(job):
    """
    Return the parsed recurrence of *job*.
    """
    facts = json.loads(job.recurrence)
    assert facts.keys() <= FIELDS
    assert Recurrence.from_text(job.recurrence).to_text() == job.recurrence
    assert is_readable(job.recurrence)
    return facts


def test_an_equal_rule_changes_nothing(client):
    """
    Setting an equal rule with `set` or `set_many` changes nothing, however the rule is written.

    If a job is exported as a line, importing the line makes an equal job.
    """
    for number, (asked, spelled) in enumerate(RULES):
        key = f"equal/{number}"
        job = client.set(key, target="log", **asked).job
        rule(job)
        for again in (asked, spelled):
            assert client.set(key, target="log", **again).outcome is Outcome.UNCHANGED, again
        (answer,) = client.set_many([SetRequest(key, target="log", **spelled)])
        assert answer.outcome is Outcome.UNCHANGED
        line = json.loads(json.dumps(exported(client.get(key))))
        assert client.set_many([request_of(line)])[0].outcome is Outcome.UNCHANGED, line
        client.cancel(key)
        (answer,) = client.set_many([request_of(line)])
        assert (answer.job.recurrence, answer.job.due_at) == (job.recurrence, job.due_at)
        assert client.get(key).recurrence == job.recurrence
        client.cancel(key)


def test_another_rule_changes_the_series(client):
    """
    If any field that determines the due times of a series changes, setting the job changes its rule.
    """
    for number, other in enumerate(OTHERS):
        key = f"other/{number}"
        client.set(key, target="log", **RULES[0][0])
        answer = client.set(key, target="log", **other)
        assert answer.outcome is Outcome.CHANGED, other
        rule(answer.job)
        assert client.set(key, target="log", **other).outcome is Outcome.UNCHANGED
        client.cancel(key)


def test_change(client):
    """
    A change of named fields leaves the other parts of the rule unchanged: time, dates, sets of days and policies.
    """
    first = client.set("c", target="log", every="3d", time="02:00", tz="Europe/Berlin", dst_gap="skip").job
    steps = [
        ({"every": "5d"}, {"every": "5d", "time": "02:00:00", "dst_gap": "skip"}),
        ({"time": "03:30"}, {"every": "5d", "time": "03:30:00", "dst_gap": "skip"}),
        ({"tz": "Asia/Tokyo"}, {"tz": "Asia/Tokyo", "every": "5d", "time": "03:30:00"}),
        ({"dst_overlap": "both", "dst_gap": None}, {"dst_overlap": "both", "time": "03:30:00"}),
        ({"every": "1 month"}, {"every": "1 month", "dst_overlap": "both"}),
        (
            {"cron": "0 9 13 * FRI", "day_match": "both"},
            {"cron": "0 9 13 * FRI", "day_match": "both", "dst_overlap": "both"},
        ),
        ({"cron": "0 10 13 * FRI"}, {"cron": "0 10 13 * FRI", "day_match": "both", "dst_overlap": "both"}),
        ({"tz": "UTC"}, {"cron": "0 10 13 * FRI", "day_match": "both", "tz": "UTC"}),
        ({"day_match": None}, {"cron": "0 10 13 * FRI"}),
        ({"every": "2d", "time": "04:00"}, {"every": "2d", "time": "04:00:00", "dst_overlap": "both"}),
        ({"time": None}, {"every_ms": 2 * 86_400_000}),
        ({"time": "05:00"}, {"every": "2d", "time": "05:00:00"}),
        ({"every": "90m", "time": None}, {"every_ms": 5_400_000}),
    ]
    assert rule(first)["dst_gap"] == "skip"
    for fields, expected in steps:
        answer = client.change("c", **fields)
        assert answer.outcome is Outcome.CHANGED, fields
        found = rule(answer.job)
        assert {name: found.get(name) for name in expected} == expected
        assert len(found.keys() & {"time", "cron", "every_ms"}) == 1, found
    for fields in ({"time": "02:00"}, {"every": "1 month"}, {"dst_gap": "skip"}, {"day_match": "both"}):
        with pytest.raises(InvalidJobError):
            client.change("c", **fields)


def test_another_zone_or_time_keeps_the_dates(client):
    """
    If the time, zone or exclusions of a series change, it still runs on the same days of the calendar.
    """
    start = datetime(YEAR, 1, 30, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    first = client.set("dates", target="log", every="1 month", time="13:00", tz="Asia/Tokyo", at=start).job
    assert rule(first)["anchor_on"] == f"{YEAR}-01-30"
    for fields in ({"time": "14:00"}, {"tz": "Europe/Berlin"}, {"exclude": [f"{YEAR}-02-28"]}):
        assert rule(client.change("dates", **fields).job)["anchor_on"] == f"{YEAR}-01-30"
    again = client.set("dates", target="log", every="1 month", time="15:00", tz="Europe/Berlin").job
    assert rule(again)["anchor_on"] == f"{YEAR}-01-30"


def test_at_gives_a_date_of_the_series(client):
    """
    `at=` gives one date of the series, past or future, from which the other dates are counted.

    If the job is set again with an `at=` on one of these dates, the series stays unchanged.
    """
    fields = {"target": "log", "every": "2w", "time": "09:00", "at": "2001-01-01T00:00Z"}
    job = client.set("phase", **fields).job
    assert datetime.fromtimestamp(job.due_at / 1000, UTC).weekday() == 0
    assert client.set("phase", **fields).outcome is Outcome.UNCHANGED
    assert client.set("phase", **fields | {"at": "2001-01-15T09:00Z"}).outcome is Outcome.UNCHANGED
    assert client.set("phase", **fields | {"at": "2001-01-08T09:00Z"}).outcome is Outcome.CHANGED


def test_the_zone_of_this_machine(client, monkeypatch):
    """
    The time zone `local` is stored as the name of this machine's zone.

    If the zone has no name, an error is raised.
    """
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    tzset()
    try:
        job = client.set("local", target="log", every="1d", time="02:00", tz="local").job
        assert rule(job)["tz"] == "Asia/Tokyo"
        assert rule(client.set("local/cron", target="log", cron="0 9 * * *", tz="local").job)["tz"] == "Asia/Tokyo"
        assert client.set("local", target="log", every="1d", time="02:00", tz="Asia/Tokyo").outcome is Outcome.UNCHANGED
        client.set("local/late", target="log", cron="0 9 * * *")
        assert rule(client.change("local/late", tz="local").job)["tz"] == "Asia/Tokyo"
        monkeypatch.setenv("TZ", "CET-1CEST")
        tzset()
        with pytest.raises(InvalidRecurrenceError, match="tz is 'local': the zone of this machine is not known"):
            client.set("local", target="log", cron="0 9 * * *", tz="local")
    finally:
        monkeypatch.undo()
        tzset()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"every": "1 month"}, "every is '1 month': months have no fixed length: add time="),
        ({"every": "5h", "time": "02:00"}, "every is '5h': with time= it is whole days, weeks or months"),
        ({"every": "1d", "time": "25:00"}, "time is '25:00'"),
        ({"every": "1d", "time": 2}, "time is 2"),
        ({"every": "0d", "time": "02:00"}, "every is '0d'"),
        ({"every": "9999999 days", "time": "02:00"}, "every is"),
        ({"cron": "0 9 * * *", "time": "02:00"}, "time is '02:00': it is for every="),
        ({"every": "1d", "day_match": "both"}, "day_match is 'both': it is for lines"),
        ({"every": "1d", "dst_gap": "skip"}, "dst_gap is 'skip'"),
        ({"every": "1d", "dst_overlap": "both"}, "dst_overlap is 'both'"),
        ({"cron": "0 9 * * *", "dst_gap": "both"}, "dst_gap is 'both'"),
        ({"cron": "0 9 * * *", "dst_overlap": "end"}, "dst_overlap is 'end'"),
        ({"cron": "0 9 * * *", "day_match": True}, "day_match is True"),
        ({"delay": 1, "time": "02:00"}, "time is '02:00': it is for recurring jobs"),
        ({"delay": 1, "day_match": "both"}, "day_match is 'both': it is for recurring jobs"),
        ({"delay": 1, "dst_gap": "skip"}, "dst_gap is 'skip': it is for recurring jobs"),
        ({"delay": 1, "dst_overlap": "both"}, "dst_overlap is 'both': it is for recurring jobs"),
    ],
)
def test_invalid_rules(client, fields, named):
    """
    For an invalid rule, the error of a store or a service names the field, the field's value and the remedy.
    """
    with pytest.raises((InvalidJobError, TypeError), match=named):
        client.set("bad", target="log", **fields)
    assert client.get("bad") is None


@pytest.mark.parametrize("name", ["every", "time", "anchor_on", "day_match", "dst_gap", "dst_overlap"])
def test_a_value_of_a_later_version(name):
    """
    If a rule has a value that only a later version of tickwheel knows, a node finds that it cannot read the rule.

    The node also finds the part of the rule with this value.
    """
    asked = {"every": "3d", "time": "02:00"} if name in {"every", "time", "anchor_on"} else {"cron": "0 9 13 * FRI"}
    facts = json.loads(trial(SetRequest("k", target="log", **asked), NOW).recurrence) | {name: "later"}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    assert not is_readable(text)
    assert unreadable_part(text) in {f'"{name}":"later"', text}


def test_not_succeeded_since(client):
    """
    Recurring jobs can be listed by the time of their last success.

    If a job never succeeded, the time when it was first set is used.
    """
    client.set("fresh", every=60, target="log")
    client.set("once", delay=60, target="log")
    later = datetime.now(UTC).timestamp() + 5
    assert [job.key for job in client.list(not_succeeded_since=later).jobs] == ["fresh"]
    assert client.list(not_succeeded_since=later - 3600).jobs == ()
    assert client.list(not_succeeded_since=later, prefix="x").jobs == ()


def test_other_versions_of_the_zone_data():
    """
    A due time that does not match its rule, because the zone's data has changed, is computed again.
    """
    text = trial(SetRequest("k", target="log", every="3d", time="02:00", tz="Europe/Berlin"), NOW).recurrence
    due = Recurrence.from_text(text).next("k", NOW)
    assert renamed("k", due, text) is None
    assert renamed("k", due + 3_600_000, text) == due
