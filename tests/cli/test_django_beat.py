"""
The import from the tables of django-celery-beat.

The tests create the same tables as the migrations of django-celery-beat.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from years import YEAR, year_like

pytest.importorskip("celery", reason="Celery is not installed: pip install celery")
pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed")

TABLES = """
CREATE TABLE django_celery_beat_intervalschedule (id integer PRIMARY KEY, every integer NOT NULL, period varchar(24));
CREATE TABLE django_celery_beat_crontabschedule (id integer PRIMARY KEY, minute varchar(240), hour varchar(96),
    day_of_week varchar(64), day_of_month varchar(124), month_of_year varchar(64), timezone varchar(63));
CREATE TABLE django_celery_beat_clockedschedule (id integer PRIMARY KEY, clocked_time datetime NOT NULL);
CREATE TABLE django_celery_beat_solarschedule (id integer PRIMARY KEY, event varchar(24), latitude decimal,
    longitude decimal);
CREATE TABLE django_celery_beat_periodictask (id integer PRIMARY KEY, name varchar(200) UNIQUE, task varchar(200),
    args text, kwargs text, queue varchar(200), exchange varchar(200), routing_key varchar(200), expires datetime,
    enabled bool NOT NULL, last_run_at datetime, total_run_count integer, date_changed datetime, description text,
    crontab_id integer, interval_id integer, solar_id integer, one_off bool NOT NULL, start_time datetime,
    priority integer, headers text, clocked_id integer, expire_seconds integer);
INSERT INTO django_celery_beat_intervalschedule VALUES (1, 3, 'hours');
INSERT INTO django_celery_beat_crontabschedule VALUES (1, '30', '7,19', 'mon-fri', '*', '*', 'Europe/Berlin');
INSERT INTO django_celery_beat_crontabschedule VALUES (2, '0', '0', '5', '13', '*', 'UTC');
INSERT INTO django_celery_beat_clockedschedule VALUES (1, 'YEAR-01-01 09:00:00');
INSERT INTO django_celery_beat_solarschedule VALUES (1, 'sunset', 1, 1);
"""


def test_tasks_are_imported(run, tmp_path, monkeypatch):
    """
    The imported tasks have the same names, arguments, options, zones and states.
    """
    monkeypatch.setenv("TICKWHEEL_TARGET_CELERY", "celery+redis://localhost:6379/0")
    begun = datetime.now(UTC)
    last = (begun - timedelta(hours=1)).replace(microsecond=0)

    def task(name, **fields):
        row = {"name": name, "task": "shop.t", "args": "[1]", "kwargs": "{}", "headers": "{}", "enabled": 1} | fields
        row.setdefault("one_off", 0)
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        statement = f"INSERT INTO django_celery_beat_periodictask ({names}) VALUES ({marks})"  # noqa: S608  our names
        connection.execute(statement, [*row.values()])

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.executescript(TABLES.replace("YEAR", str(YEAR)))
        text = last.replace(tzinfo=None).isoformat(" ")
        task("interval", interval_id=1, last_run_at=text, queue="slow", priority=3, expire_seconds=60)
        task("owed", interval_id=1, last_run_at="2001-01-01 00:00:00")
        task("weekdays", crontab_id=1, kwargs='{"deep": true}', expires=f"{YEAR}-01-01 00:00:00")
        task("friday 13", crontab_id=2, start_time=f"{year_like(2050)}-01-01 00:00:00")
        task("once", interval_id=1, one_off=1)
        task("clocked", clocked_id=1, one_off=1)
        task("disabled", interval_id=1, enabled=0)
        task("dusk", solar_id=1)
    url = "sqlite:///shop.db"
    refused = run("import", "celerybeat", url)
    assert refused.returncode == 2
    assert "left out: disabled: it is disabled" in refused.stderr
    assert "left out: dusk: its schedule is solar" in refused.stderr
    assert run("import", "celerybeat", url, "--skip-bad").stdout == "imported 6 jobs, left out 2 schedules\n"
    jobs = {job["key"]: job for job in map(json.loads, run("list", "--json").stdout.splitlines())}
    due = {name: datetime.fromisoformat(job["due_at"]) for name, job in jobs.items()}
    assert due["interval"] == last + timedelta(hours=3)
    assert begun - timedelta(milliseconds=1) <= due["owed"] <= datetime.now(UTC)
    options = {"queue": "slow", "priority": 3, "expires": 60}
    assert jobs["interval"]["payload"] == {"args": [1], "kwargs": {}, "options": options}
    assert (jobs["interval"]["target"], jobs["interval"]["handler"]) == ("celery", "shop.t")
    rule = jobs["weekdays"]["recurrence"]
    assert (rule["cron"], rule["tz"], "until" in rule) == ("30 7,19 * * 1,2,3,4,5", "Europe/Berlin", True)
    assert jobs["friday 13"]["recurrence"]["day_match"] == "both"
    assert due["friday 13"] == datetime(year_like(2050), 5, 13, tzinfo=UTC)
    assert jobs["once"]["recurrence"]["max_runs"] == 1
    assert (due["clocked"], jobs["clocked"]["recurrence"]) == (datetime(YEAR, 1, 1, 9, tzinfo=UTC), None)
    assert "there is no table" in run("import", "celerybeat", "sqlite:///none.db").stderr
