"""
Imports of schedules from files and databases that APScheduler and Celery beat have written.
"""

from __future__ import annotations

import json
import pickle
import socket
import sqlite3
import textwrap
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest
from years import YEAR

from tickwheel.calendar import Cron, DayMatch
from tickwheel.cli import pickles

BERLIN = ZoneInfo("Europe/Berlin")
MILLISECOND = timedelta(milliseconds=1)
LATER = datetime(YEAR, 1, 1, 9, tzinfo=BERLIN)


class Order:
    """
    A class of the user, which tickwheel does not know.
    """


@pytest.fixture
def apscheduler(tmp_path):
    """
    Return an APScheduler to which jobs can be added. It stores them in the SQLite file `old.db`.
    """
    background = pytest.importorskip(
        "apscheduler.schedulers.background", reason="APScheduler is not installed: pip install 'apscheduler<4'"
    )
    stores = pytest.importorskip("apscheduler.jobstores.sqlalchemy", reason="SQLAlchemy is not installed")
    store = stores.SQLAlchemyJobStore(f"sqlite:///{tmp_path / 'old.db'}")
    scheduler = background.BackgroundScheduler(jobstores={"default": store}, timezone=BERLIN)
    scheduler.start(paused=True)
    yield scheduler
    scheduler.shutdown()
    store.engine.dispose()


def imported(run, *arguments):
    """
    Run an import, and return the imported jobs by key.
    """
    done = run("import", *arguments)
    assert done.returncode == 0, done.stderr
    jobs = {job["key"]: job for job in map(json.loads, run("list", "--json").stdout.splitlines())}
    for job in jobs.values():
        job |= {name: datetime.fromisoformat(job[name]) for name in ("due_at", "expires_at") if job.get(name)}
    return jobs


def test_apscheduler(run, apscheduler):
    """
    Jobs of APScheduler with a date, an interval or a cron rule keep their ids, due times, phases, zones and arguments.
    """
    apscheduler.add_job("builtins:print", "date", run_date=LATER, args=[1], kwargs={"sep": "-"}, id="once")
    start = datetime.now(UTC) - timedelta(seconds=100)
    apscheduler.add_job(
        "builtins:print", "interval", seconds=3600, start_date=start, id="hourly", misfire_grace_time=60
    )
    apscheduler.add_job(
        "builtins:print", "cron", hour=9, day_of_week="mon-fri", id="weekdays", coalesce=False, misfire_grace_time=None
    )
    jobs = imported(run, "apscheduler", "sqlite:///old.db", "--prefix", "old/")
    once, hourly, weekdays = (jobs[f"old/{name}"] for name in ("once", "hourly", "weekdays"))
    assert once["due_at"] == LATER
    assert (once["handler"], once["payload"]) == ("builtins:print", {"args": [1], "kwargs": {"sep": "-"}})
    assert once["expires_at"] == LATER + timedelta(seconds=1)  # APScheduler's default grace
    assert abs(hourly["due_at"] - start - timedelta(hours=1)) <= MILLISECOND
    assert (hourly["recurrence"]["misfire"], hourly["recurrence"]["every_ms"]) == ("skip", 3_600_000)
    assert (weekdays["recurrence"]["cron"], weekdays["recurrence"]["tz"]) == (
        "0 9 * * MON,TUE,WED,THU,FRI",
        "Europe/Berlin",
    )
    assert weekdays["recurrence"]["misfire"] == "all"


def test_intervals_of_apscheduler_count_elapsed_time(run, apscheduler):
    """
    Intervals of APScheduler count elapsed time, so an imported interval keeps its phase when the clocks change.
    """
    day = timedelta(hours=24)
    begins = {month: datetime(2026, month, 1, 9, tzinfo=BERLIN) for month in (1, 7)}
    for month, begin in begins.items():
        apscheduler.add_job("builtins:print", "interval", hours=24, start_date=begin, id=f"runs {month}")
        apscheduler.add_job("builtins:print", "interval", hours=24, id=f"idle {month}").modify(next_run_time=begin)
    jobs = imported(run, "apscheduler", "sqlite:///old.db")
    for month, begin in begins.items():
        assert jobs[f"runs {month}"]["due_at"] == apscheduler.get_job(f"runs {month}").next_run_time
        assert (jobs[f"idle {month}"]["due_at"] - begin.astimezone(UTC)) % day == timedelta(0)


def test_next_runs_of_apscheduler_that_were_moved(run, apscheduler):
    """
    If `modify` has moved a run, the run is due at its new time, and an interval continues from this time.
    """
    apscheduler.add_job("builtins:print", "interval", hours=24, id="interval").modify(next_run_time=LATER)
    apscheduler.add_job("builtins:print", "date", run_date=LATER + MILLISECOND, id="date").modify(next_run_time=LATER)
    jobs = imported(run, "apscheduler", "sqlite:///old.db")
    assert (jobs["interval"]["due_at"], jobs["date"]["due_at"]) == (LATER, LATER)


@pytest.fixture
def redis_url(redis_server):
    """
    Return the URL of an empty database.
    """
    redis_server.execute("FLUSHDB", database=3)
    return f"redis://127.0.0.1:{redis_server.port}/3"


def test_apscheduler_on_redis(run, redis_url):
    """
    The jobs of a RedisJobStore are imported. If their key in Redis is missing, the error names it.
    """
    background = pytest.importorskip("apscheduler.schedulers.background", reason="APScheduler is not installed")
    store = pytest.importorskip("apscheduler.jobstores.redis").RedisJobStore
    at = urlsplit(redis_url)
    assert "no key 'apscheduler.jobs'" in run("import", "apscheduler", redis_url).stderr
    stores = {"default": store(db=3, port=at.port), "own": store(db=3, port=at.port, jobs_key="own")}
    scheduler = background.BackgroundScheduler(jobstores=stores, timezone=BERLIN)
    scheduler.start(paused=True)
    scheduler.add_job("builtins:print", "date", run_date=LATER, args=[1], kwargs={"sep": "-"}, id="once")
    scheduler.add_job("builtins:print", "cron", hour=9, id="daily")
    scheduler.add_job("builtins:print", "interval", hours=1, id="held")
    scheduler.pause_job("held")
    scheduler.add_job("builtins:print", "date", run_date=LATER, id="elsewhere", jobstore="own")
    scheduler.shutdown()
    refused = run("import", "apscheduler", redis_url)
    assert (refused.returncode, "left out: held: it is paused" in refused.stderr) == (2, True)
    jobs = imported(run, "apscheduler", redis_url, "--skip-bad")
    assert jobs.keys() == {"once", "daily"}
    assert (jobs["once"]["due_at"], jobs["once"]["handler"]) == (LATER, "builtins:print")
    assert jobs["once"]["payload"] == {"args": [1], "kwargs": {"sep": "-"}}
    assert (jobs["daily"]["recurrence"]["cron"], jobs["daily"]["recurrence"]["tz"]) == ("0 9 * * *", "Europe/Berlin")
    assert "elsewhere" in imported(run, "apscheduler", redis_url, "--table", "own")


def test_apscheduler_copied_from_a_store_that_is_not_read(run, apscheduler, tmp_path):
    """
    Jobs in a store that the import cannot read can first be copied to another store with APScheduler.
    """
    apscheduler.add_jobstore("memory", "other")
    apscheduler.add_job("builtins:print", "interval", hours=1, id="hourly", args=["now"], jobstore="other")
    apscheduler.export_jobs(str(tmp_path / "jobs.json"), "other")
    apscheduler.import_jobs(str(tmp_path / "jobs.json"), "default")
    job = imported(run, "apscheduler", "sqlite:///old.db")["hourly"]
    assert (job["handler"], job["payload"]) == ("builtins:print", {"args": ["now"], "kwargs": {}})
    assert job["recurrence"]["every_ms"] == 3_600_000


def test_a_redis_that_does_not_answer(run):
    """
    If Redis does not answer, the error says so, without a traceback.
    """
    pytest.importorskip("redis", reason="redis is not installed: pip install 'tickwheel[redis]'")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer = run("import", "apscheduler", f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0")
    assert (answer.returncode, "secret" in answer.stderr) == (2, False)
    assert "the jobs of APScheduler cannot be read: " in answer.stderr


@pytest.mark.parametrize("kind", ["pickle", "json"])
def test_apscheduler_4(run, tmp_path, kind):
    """
    Schedules of APScheduler 4, as pickles or JSON, keep their ids, due times, phases, zones and arguments.
    """
    recorded = (Path(__file__).parent / "apscheduler4" / f"{kind}.sql").read_text()
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(recorded)
    # fails until the unsupported schedules are skipped
    assert run("import", "apscheduler", "sqlite:///old.db").returncode == 2
    report = json.loads(run("import", "apscheduler", "sqlite:///old.db", "--dry-run", "--json").stdout)
    bad = {each["name"]: each["remarks"][0] for each in report["schedules"] if each["key"] is None}
    assert bad.pop("class", "payload is").startswith("payload is")
    assert bad == {
        "months": "its trigger is a CalendarIntervalTrigger, and only those of one date, interval or cron are read",
        "paused": "it is paused",
        "week": "its cron trigger has week='7', which a cron line cannot say",
    }
    jobs = imported(run, "apscheduler", "sqlite:///old.db", "--skip-bad")
    rules = {name: job["recurrence"] for name, job in jobs.items()}
    assert (jobs["once"]["due_at"], rules.pop("once")) == (datetime(2112, 1, 1, tzinfo=BERLIN), None)
    assert (jobs["once"]["handler"], jobs["once"]["payload"]) == (
        "builtins:print",
        {"args": [1], "kwargs": {"sep": "-"}},
    )
    # the jitter of the schedule
    assert abs(jobs["hourly"]["due_at"].minute * 60 + jobs["hourly"]["due_at"].second - 1200) <= 5
    hourly = rules.pop("hourly")
    assert (hourly["every_ms"], hourly["misfire"], hourly["jitter_ms"]) == (3_600_000, "skip", 5_000)
    assert rules.pop("both days")["day_match"] == "both"
    assert {name: (rule["cron"], rule["tz"]) for name, rule in rules.items()} == {
        "weekdays": ("0 9 * * MON-FRI", "Europe/Berlin"),
        "steps": ("*/20 * * JAN-MAR,7 MON,WED,FRI,SUN", "UTC"),
        "sundays": ("0 3 * * SUNL,MON#1", "UTC"),
        "last": ("0 1 L * *", "UTC"),
    }
    assert (rules["weekdays"]["misfire"], rules["last"]["misfire"]) == ("all", "once")
    assert jobs["last"]["due_at"] == datetime(2110, 1, 31, 1, tzinfo=UTC)
    assert jobs["weekdays"]["due_at"] == datetime(2110, 1, 31, 9, tzinfo=BERLIN)


def test_apscheduler_4_in_cbor(run, tmp_path):
    """
    Schedules that are stored as CBOR are skipped, and CBOR is given as the reason.
    """
    recorded = (Path(__file__).parent / "apscheduler4" / "cbor.sql").read_text()
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(recorded)
    answer = run("import", "apscheduler", "sqlite:///old.db", "--dry-run")
    assert "left out: once: it is neither pickled nor JSON: APScheduler's CBORSerializer is not read" in answer.stderr
    assert answer.stdout == "would import 0 jobs, left out 10 schedules\n"


CRONS = [
    {"minute": "*/5"},
    {"hour": "8-18/2", "minute": "0,30"},
    {"day": "*/2", "hour": 1},
    {"day": "last", "hour": 1},
    {"day": "last sun,1st mon", "hour": 3},
    {"day": "3rd fri"},
    {"day": "1,2nd fri"},
    {"day": "2nd fri,1", "second": 5},
    {"day": "*/10,last fri"},
    {"day": "15,last"},
    {"day": "13", "day_of_week": "fri"},
    {"day": "*/2", "day_of_week": "mon"},
    {"month": "jan-mar,7", "day": "1-5/2"},
    {"day_of_week": "sun"},
    {"day_of_week": "0-6/2", "hour": "*/6"},
    {"day_of_week": "*/2"},
    {"second": "*/15"},
    {"month": "2/3", "hour": "22/1"},
]


@pytest.mark.parametrize("fields", CRONS, ids=str)
def test_crons_fire_when_apscheduler_does(run, apscheduler, fields):
    """
    The next thirty runs of a cron schedule are the same as in APScheduler.
    """
    job = apscheduler.add_job("builtins:print", "cron", id="c", timezone=UTC, **fields)
    taken = imported(run, "apscheduler", "sqlite:///old.db")["c"]["recurrence"]
    cron = Cron.parse(taken["cron"], taken["tz"], DayMatch(taken.get("day_match", "either")))
    now, last = datetime(2027, 1, 31, 23, 59, 31, tzinfo=UTC), None
    ours = theirs = now
    for _ in range(30):
        last = theirs = job.trigger.get_next_fire_time(last, theirs if last is None else last)
        ours = datetime.fromtimestamp(cron.next(int(ours.timestamp() * 1000)) / 1000, UTC)
        assert ours == theirs


def test_features_without_a_counterpart(run, apscheduler):
    """
    If a job uses a feature that tickwheel does not have, the import stops and names it. An option skips the job.
    """
    combining = pytest.importorskip("apscheduler.triggers.combining")
    interval = pytest.importorskip("apscheduler.triggers.interval")
    both = {"day": "13,2nd mon", "day_of_week": "fri"}
    for name, fields in {"both days": both, "week": {"week": 7}}.items():
        apscheduler.add_job("builtins:print", "cron", id=name, **fields)
    apscheduler.add_job("builtins:print", combining.AndTrigger([interval.IntervalTrigger(hours=1)]), id="and")
    apscheduler.add_job("builtins:print", "date", run_date=LATER, args=[Order()], id="class")
    apscheduler.add_job("builtins:print", "date", run_date=LATER, args=[LATER], id="datetime")
    apscheduler.add_job("builtins:print", "date", run_date=LATER, id="paused").pause()
    apscheduler.add_job("builtins:print", "interval", hours=1, jitter=5, max_instances=3, id="good")
    answer = run("import", "apscheduler", "sqlite:///old.db")
    assert answer.returncode == 2
    for line in (
        "left out: both days: its cron trigger restricts day_of_week, and names weekdays in its day as well",
        "left out: week: its cron trigger has week='7'",
        "left out: and: its trigger is a AndTrigger",
        "left out: class: its arguments hold a ",
        "test_takeover.Order, which JSON cannot carry",
        "left out: datetime: payload is ",
        "left out: paused: it is paused",
        "differs: good: up to 3 runs at a time",
        "differs: good: its jitter of 5 s",
        "6 schedules cannot be taken over, so nothing was imported",
    ):
        assert line in answer.stderr
    assert run("import", "apscheduler", "sqlite:///old.db", "--dry-run").stdout == (
        "would import 1 job, left out 6 schedules\n"
    )
    answer = run("import", "apscheduler", "sqlite:///old.db", "--skip-bad", "--json")
    found = json.loads(answer.stdout)
    assert (found["imported"], found["left_out"]) == (1, 6)
    assert {each["name"] for each in found["schedules"] if each["key"] is None} == {
        *("and", "both days", "class", "datetime", "paused", "week")
    }
    assert [line.split("\t")[0] for line in run("list").stdout.splitlines()] == ["good"]


def test_no_table(run, tmp_path):
    """
    If a database lacks the table of APScheduler's jobs, the error names the table.
    """
    (tmp_path / "none.db").touch()
    assert "there is no table 'apscheduler_jobs'" in run("import", "apscheduler", "sqlite:///none.db").stderr
    (tmp_path / "none.db").write_text("not a database, but long enough to be read as one" * 100)
    assert "cannot be read" in run("import", "apscheduler", "sqlite:///none.db").stderr
    assert run("import", "apscheduler", "gibberish").returncode == 2


SETTINGS = """
    from datetime import timedelta
    from celery import Celery
    from celery.schedules import BaseSchedule, crontab

    class Dawn(BaseSchedule):
        pass

    app = Celery("shop")
    app.conf.timezone = "Europe/Berlin"
    app.conf.beat_schedule = {
        "sums": {"task": "shop.add", "schedule": 30.0, "args": (1, 2), "options": {"queue": "slow", "expires": 20}},
        "hourly": {"task": "shop.tidy", "schedule": timedelta(hours=1), "kwargs": {"deep": True}},
        "weekdays": {"task": "shop.report", "schedule": crontab(minute=30, hour="7,19", day_of_week="mon-fri")},
    }
    bad = {
        "dawn": {"task": "shop.wake", "schedule": Dawn()},
        "friday 13": {"task": "shop.hide", "schedule": crontab(0, 0, day_of_month=13, day_of_week=5)},
        "object": {"task": "shop.add", "schedule": 30, "args": (object(),)},
    }
"""


@pytest.fixture
def celery_app(tmp_path, monkeypatch):
    """
    Write the settings of a Celery application into the test's folder.
    """
    pytest.importorskip("celery", reason="Celery is not installed: pip install celery")
    monkeypatch.setenv("TICKWHEEL_TARGET_CELERY", "celery+redis://localhost:6379/0")
    name = f"shop_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(SETTINGS))
    monkeypatch.syspath_prepend(tmp_path)
    return name


def check_celery(jobs):
    """
    Check the jobs that are imported from the valid settings.
    """
    assert jobs["sums"]["recurrence"]["every_ms"] == 30_000
    assert (jobs["sums"]["target"], jobs["sums"]["handler"]) == ("celery", "shop.add")
    assert jobs["sums"]["payload"] == {"args": [1, 2], "kwargs": {}, "options": {"queue": "slow", "expires": 20}}
    assert jobs["hourly"]["payload"] == {"args": [], "kwargs": {"deep": True}}
    assert jobs["weekdays"]["recurrence"]["cron"] == "30 7,19 * * 1,2,3,4,5"
    assert jobs["weekdays"]["recurrence"]["tz"] == "Europe/Berlin"


def test_celerybeat_settings(run, celery_app):
    """
    The beat schedule of a Celery application can be imported. The jobs send tasks to the application's workers.
    """
    check_celery(imported(run, "celerybeat", f"{celery_app}:app"))


def test_celerybeat_settings_of_django(run, celery_app, tmp_path):
    """
    The import also reads a settings module with Django's names, and names schedules that tickwheel cannot represent.
    """
    (tmp_path / f"{celery_app}_settings.py").write_text(
        f"from {celery_app} import bad\nCELERY_BEAT_SCHEDULE = bad\nCELERY_TIMEZONE = 'UTC'\n"
    )
    answer = run("import", "celerybeat", f"{celery_app}_settings")
    assert answer.returncode == 2
    for line in (
        "left out: dawn: its schedule is a Dawn, and only intervals and crontabs are read",
        "left out: object: payload is ",
        "2 schedules cannot be taken over",
    ):
        assert line in answer.stderr
    jobs = imported(run, "celerybeat", f"{celery_app}_settings", "--skip-bad")
    rule = jobs["friday 13"]["recurrence"]
    assert (rule["cron"], rule["day_match"]) == ("0 0 13 * 5", "both")
    assert "has no schedule" in run("import", "celerybeat", "json").stderr
    assert "cannot be imported" in run("import", "celerybeat", "no_such_module").stderr


def test_celerybeat_file(run, celery_app, tmp_path):
    """
    The schedule file of beat can be imported, and intervals keep their phase. No code in the file is executed.
    """
    beat = pytest.importorskip("celery.beat")
    app = __import__(celery_app).app
    scheduler = beat.PersistentScheduler(app, schedule_filename=str(tmp_path / "celerybeat-schedule"))
    last = datetime.now(UTC) - timedelta(minutes=10)
    scheduler.schedule["hourly"].last_run_at = last
    scheduler.schedule["strange"] = beat.ScheduleEntry(name="strange", task="t", schedule=Every(seconds=5), app=app)
    scheduler.close()
    answer = run("import", "celerybeat", "celerybeat-schedule", "--dry-run")
    assert "left out: strange: its schedule is a " in answer.stderr
    jobs = imported(run, "celerybeat", "celerybeat-schedule", "--skip-bad")
    check_celery(jobs)
    assert abs(jobs["hourly"]["due_at"] - last - timedelta(hours=1)) <= MILLISECOND


@pytest.mark.parametrize("source", ["app", "file", "settings"])
def test_crontabs_of_celery_in_local_time(run, celery_app, tmp_path, source):
    """
    If beat ran in the local time of its machine, the import does not guess this zone: the user must name it.
    """
    beat = pytest.importorskip("celery.beat")
    app = __import__(celery_app).app
    app.conf.update(timezone=None, enable_utc=False)
    beat.PersistentScheduler(app, schedule_filename=str(tmp_path / "celerybeat-schedule")).close()
    (tmp_path / f"{celery_app}_settings.py").write_text(
        f"from {celery_app} import app\nCELERY_BEAT_SCHEDULE = app.conf.beat_schedule\nCELERY_ENABLE_UTC = False\n"
    )
    names = {"app": f"{celery_app}:app", "file": "celerybeat-schedule", "settings": f"{celery_app}_settings"}
    answer = run("import", "celerybeat", names[source])
    assert (answer.returncode, "left out: sums" in answer.stderr) == (2, False)
    assert "left out: weekdays: its crontab is in the local time of where beat ran" in answer.stderr
    check_celery(imported(run, "celerybeat", names[source], "--tz", "Europe/Berlin"))


class Every(timedelta):
    """
    A schedule class of the user, which is not part of Celery.
    """


def test_no_code_of_a_pickle_runs(tmp_path):
    """
    If a pickle contains function calls, the import records them, but does not make them.
    """

    class Evil:
        def __reduce__(self):
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",)

    found = pickles.load(pickle.dumps({"args": [Evil()], "when": LATER, "zone": ZoneInfo("Asia/Tokyo")}))
    assert list(pickles.foreign_in(found)) == ["builtins.exec"]
    assert (found["when"], found["zone"].key) == (LATER, "Asia/Tokyo")
    assert not (tmp_path / "ran").exists()
    with pytest.raises(ValueError, match="its pickle cannot be read"):
        pickles.load(b"nothing")


def test_a_file_that_beat_has_not_written(run, tmp_path):
    """
    If the given file was not written by beat, the error says which file to give instead.
    """
    pytest.importorskip("celery", reason="Celery is not installed: pip install celery")
    (tmp_path / "notes").write_text("no schedule")
    assert "name the file that beat keeps" in run("import", "celerybeat", "notes").stderr
