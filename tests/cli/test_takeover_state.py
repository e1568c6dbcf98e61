"""
The state of imported schedules of APScheduler and Celery beat: missed runs, moved runs, and random triggers.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tickwheel.calendar import Cron, DayMatch, DstOverlap

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE, MILLISECOND = timedelta(minutes=1), timedelta(milliseconds=1)


def change_day(instant):
    """
    Return 0:00 UTC of the day on which Berlin's clocks change to summer time, in the year of *instant*.
    """
    last = datetime(instant.year, 3, 31, tzinfo=UTC)
    return last - timedelta(days=last.isoweekday() % 7)


def is_skipped(instant):
    """
    Return True if *instant* is in the first hour after Berlin's clocks are set forward.
    """
    return timedelta(hours=1) <= instant - change_day(instant) <= timedelta(hours=2)


def is_lost(instant):
    """
    Return True if *instant* is in the first hour of the day after Berlin's change to summer time.
    """
    return timedelta(hours=22) <= instant - change_day(instant) < timedelta(hours=23)


@pytest.fixture
def apscheduler(tmp_path):
    """
    Return an APScheduler to which jobs can be added. It stores them in the SQLite file `old.db`.
    """
    background = pytest.importorskip("apscheduler.schedulers.background", reason="APScheduler is not installed")
    stores = pytest.importorskip("apscheduler.jobstores.sqlalchemy", reason="SQLAlchemy is not installed")
    store = stores.SQLAlchemyJobStore(f"sqlite:///{tmp_path / 'old.db'}")
    scheduler = background.BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    yield scheduler
    scheduler.remove_all_jobs()  # otherwise the scheduler would run the jobs as it ends
    scheduler.shutdown()
    store.engine.dispose()


def imported(run, *arguments):
    """
    Run an import, and return the imported jobs by key.
    """
    done = run("import", *arguments)
    assert done.returncode == 0, done.stderr
    jobs = {job["key"]: job for job in map(json.loads, run("list", "--json", "--all").stdout.splitlines())}
    for job in jobs.values():
        job["due_at"] = datetime.fromisoformat(job["due_at"])
    return jobs


def test_schedules_as_a_manifest(run, apscheduler):
    """
    With --manifest, recurring schedules are declared as a manifest. The job of a removed schedule is then cancelled.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    for name in ("daily", "hourly"):
        apscheduler.add_job("builtins:print", "cron", hour=3, id=name)
    apscheduler.add_job("builtins:print", "interval", hours=24, id="moved", next_run_time=now + 10 * MINUTE)
    apscheduler.add_job("builtins:print", "date", run_date=now + timedelta(days=9), id="once")
    arguments = ("apscheduler", "sqlite:///old.db", "--manifest", "shop")
    assert "+ daily" in run("import", *arguments, "--dry-run").stdout
    jobs = imported(run, *arguments)
    assert {key: job.get("manifest") for key, job in jobs.items()} == {
        "daily": "shop",
        "hourly": "shop",
        "moved": "shop",
        "once": None,
    }
    assert jobs["moved"]["due_at"] == now + 10 * MINUTE
    apscheduler.remove_job("hourly")
    again = json.loads(run("import", *arguments, "--json").stdout)["declared"]
    outcomes = {job["key"]: job["outcome"] for job in again["jobs"]}
    assert outcomes == {"daily": "unchanged", "moved": "unchanged", "hourly": "cancelled"}


def test_the_state_of_apscheduler(run, apscheduler):
    """
    If the last run was missed by less than its grace time, the imported job is due now.

    If the next run was moved, the job is due at the new time, and otherwise at the next time of its rule.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    far = now + timedelta(days=300)

    def add(name, trigger, at, grace=None, **fields):
        apscheduler.add_job("builtins:print", trigger, id=name, next_run_time=at, misfire_grace_time=grace, **fields)

    rare = {"month": far.month, "day": 1, "hour": 3}
    add("owed", "cron", now - MINUTE, **rare)
    add("owed/grace", "cron", now - MINUTE, 3600, **rare)
    add("late", "cron", now - 10 * MINUTE, 60, **rare)
    add("soon", "cron", now + 10 * MINUTE, **rare)
    add("later", "cron", far, minute="*")
    add("later/odd", "cron", far + timedelta(seconds=7), minute="*")
    add("owed/interval", "interval", now - MINUTE, hours=24)
    add("late/interval", "interval", now - 10 * MINUTE, 60, hours=24)
    add("later/interval", "interval", far, hours=24)
    add("owed/date", "date", now - MINUTE, run_date=now)
    jobs = imported(run, "apscheduler", "sqlite:///old.db")
    after = datetime.now(UTC)
    for name in ("owed", "owed/grace", "owed/interval", "owed/date"):
        assert now - MILLISECOND <= jobs[name]["due_at"] <= after, name
    assert jobs["soon"]["due_at"] == now + 10 * MINUTE
    assert (jobs["later"]["due_at"], jobs["later/interval"]["due_at"]) == (far.replace(), far)
    assert jobs["later/odd"]["due_at"] == far + timedelta(seconds=7)
    assert jobs["late"]["due_at"] > after
    assert jobs["late/interval"]["due_at"] == now - 10 * MINUTE + timedelta(hours=24)
    assert imported(run, "apscheduler", "sqlite:///old.db")["soon"]["due_at"] == now + 10 * MINUTE


def test_a_date_of_apscheduler_that_was_missed(run, apscheduler):
    """
    A one-time run that was missed by more than its grace time is not imported.
    """
    past = datetime.now(UTC) - timedelta(hours=1)
    apscheduler.add_job("builtins:print", "date", run_date=past, id="missed", misfire_grace_time=60, next_run_time=past)
    assert "left out: missed: its run of" in run("import", "apscheduler", "sqlite:///old.db", "--skip-bad").stderr
    assert run("list").stdout == ""


def field(draw, least, most, names=None):
    """
    Return a random value for one field of a cron trigger.
    """
    low, high = sorted(draw.sample(range(least, most + 1), 2))
    kinds = [
        f"{low}",
        f"{low}-{high}",
        f"*/{draw.randint(1, 6)}",
        f"{low}-{high}/{draw.randint(1, min(3, high - low))}",
        f"{low},{high}",
    ]
    return draw.choice(kinds + (names or []))


def fields_of(draw):
    """
    Return random fields for a cron trigger that fires at most a few times a day.
    """
    chosen = {"minute": str(draw.randrange(60)), "hour": field(draw, 0, 23)}
    if draw.random() < 0.5:
        chosen["day"] = field(draw, 1, 28, ["last", "1,2nd fri", "15,last", "last sun", "3rd mon,20-22", "*/9,1st tue"])
    if "day" not in chosen or (draw.random() < 0.4 and not {"s", "n", "t"} & set(chosen["day"])):
        chosen["day_of_week"] = field(draw, 0, 6, ["mon-fri", "sat,sun"])
    if draw.random() < 0.3:
        chosen["month"] = field(draw, 1, 12, ["jan-mar"])
    return chosen


def line_of(rule):
    """
    Return the cron line in the *rule* of a job.
    """
    cron = Cron.parse(rule["cron"], rule["tz"], DayMatch(rule.get("day_match", "either")))
    return replace(cron, dst_overlap=DstOverlap(rule["dst_overlap"]) if "dst_overlap" in rule else None)


def ours(cron, start, count):
    """
    Return the first *count* runs of *cron* after *start*, computed by tickwheel.
    """
    found = [int(start.timestamp() * 1000)]
    for _ in range(count):
        found.append(cron.next(found[-1]))
    return [datetime.fromtimestamp(each / 1000, UTC) for each in found[1:]]


def theirs(trigger, start, count):
    """
    Return the first *count* runs of *trigger* after *start*, computed by APScheduler.
    """
    found, last = [], start
    while len(found) < count:
        last = trigger.get_next_fire_time(last, last + timedelta(microseconds=1) if not found else last)
        found.append(last.astimezone(UTC))
    return found


@pytest.mark.parametrize(
    ("triggers", "instants"), [(25, 30), pytest.param(1000, 1000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_random_triggers_of_apscheduler(run, apscheduler, triggers, instants):
    """
    In UTC, random triggers have the same runs in tickwheel and in APScheduler.
    """
    draw = random.Random(50)
    for number in range(triggers):
        apscheduler.add_job("builtins:print", "cron", id=f"{number}", timezone=UTC, **fields_of(draw))
    jobs = imported(run, "apscheduler", "sqlite:///old.db")
    assert len(jobs) == triggers
    start = datetime(2027, 1, 31, 23, 59, 31, tzinfo=UTC)
    for job in apscheduler.get_jobs():
        expected = theirs(job.trigger, start, instants)
        assert ours(line_of(jobs[job.id]["recurrence"]), start, instants) == expected, job.trigger


def is_known(instant):
    """
    Return True if the page about migrating says that runs at *instant* may differ or be missing.
    """
    return is_skipped(instant) or is_lost(instant)


@pytest.mark.parametrize(
    ("triggers", "instants"), [(15, 20), pytest.param(1000, 200, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_random_triggers_of_apscheduler_over_changes_of_the_clock(run, apscheduler, triggers, instants):
    """
    In Berlin, random triggers have the same runs in tickwheel and in APScheduler, with two documented exceptions.
    """
    draw = random.Random(51)
    for number in range(triggers):
        chosen = {"minute": f"{draw.randrange(60)}", "hour": field(draw, 0, 5)}
        apscheduler.add_job("builtins:print", "cron", id=f"{number}", timezone=BERLIN, **chosen)
    jobs = imported(run, "apscheduler", "sqlite:///old.db")
    for day in (datetime(2027, 3, 27, 12, tzinfo=BERLIN), datetime(2027, 10, 30, 12, tzinfo=BERLIN)):
        for job in apscheduler.get_jobs():
            expected = theirs(job.trigger, day, instants)
            found = ours(line_of(jobs[job.id]["recurrence"]), day, instants)
            outside = [[each for each in those if not is_known(each)] for those in (found, expected)]
            most = min(map(len, outside))
            assert most >= instants - 8
            assert outside[0][:most] == outside[1][:most], job.trigger


def test_the_state_of_beat(run, tmp_path, monkeypatch):
    """
    If beat has missed a run, the imported job is due now. Unusual values lead to a remark.
    """
    beat = pytest.importorskip("celery.beat", reason="Celery is not installed")
    from celery import Celery  # noqa: PLC0415  after the check
    from celery.schedules import crontab, schedule  # noqa: PLC0415  likewise

    monkeypatch.setenv("TICKWHEEL_TARGET_CELERY", "celery+redis://localhost:6379/0")
    app = Celery("shop")
    far = (datetime.now(UTC) + timedelta(days=150)).month
    app.conf.beat_schedule = {
        "interval": {"task": "t", "schedule": timedelta(hours=1)},
        "relative": {"task": "t", "schedule": schedule(timedelta(hours=1), relative=True)},
        "crontab": {"task": "t", "schedule": crontab(minute=0, hour=3, day_of_month=1, month_of_year=far)},
        "done": {"task": "t", "schedule": crontab(minute=0, hour=3, day_of_month=1, month_of_year=far)},
        "celery.backend_cleanup": {"task": "celery.backend_cleanup", "schedule": crontab(minute=0, hour=4)},
    }
    scheduler = beat.PersistentScheduler(app, schedule_filename=str(tmp_path / "celerybeat-schedule"))
    begun = datetime.now(UTC)
    for name in ("interval", "crontab"):
        scheduler.schedule[name].last_run_at = begun - timedelta(days=400)
    scheduler.close()
    remarks = run("import", "celerybeat", "celerybeat-schedule", "--dry-run").stderr
    assert "differs: relative: relative=True" in remarks
    assert "differs: celery.backend_cleanup: it is a task of Celery's own" in remarks
    jobs = imported(run, "celerybeat", "celerybeat-schedule")
    after = datetime.now(UTC)
    for name in ("interval", "crontab"):
        assert begun - MILLISECOND <= jobs[name]["due_at"] <= after, name
    assert jobs["done"]["due_at"] > after


@pytest.mark.parametrize(
    ("triggers", "instants"), [(12, 25), pytest.param(1000, 1000, marks=pytest.mark.slow)], ids=["some", "many"]
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_random_crontabs_of_celery(zone, triggers, instants):
    """
    Random crontabs have the same runs in tickwheel and in Celery, except at times that the clocks skip.
    """
    schedules = pytest.importorskip("celery.schedules", reason="Celery is not installed")
    celery = pytest.importorskip("celery")
    from tickwheel.cli.celerybeat import crontab_of  # noqa: PLC0415  after the check

    app = celery.Celery("random")
    app.conf.timezone = zone
    draw = random.Random(f"52 {zone}")
    local = ZoneInfo(zone)
    for _ in range(triggers):
        fields = {"minute": f"{draw.randrange(60)}", "hour": field(draw, 0, 23)}
        if draw.random() < 0.5:
            fields["day_of_month"] = field(draw, 1, 28)
        if draw.random() < 0.5:
            fields["day_of_week"] = field(draw, 0, 6, ["mon-fri", "sun"])
        crontab = schedules.crontab(app=app, **fields)
        cron = line_of(crontab_of(crontab, zone))
        for start in (datetime(2027, 3, 27, 12, tzinfo=local), datetime(2027, 10, 30, 12, tzinfo=local)):
            last, expected = start, []
            for _ in range(instants):
                crontab.nowfun = lambda now=last: now
                last = (last.astimezone(UTC) + crontab.remaining_estimate(last)).astimezone(local)
                expected.append(last.astimezone(UTC))
            found = ours(cron, start, instants)
            outside = [[each for each in those if not is_skipped(each)] for those in (found, expected)]
            most = min(map(len, outside))
            assert outside[0][:most] == outside[1][:most], crontab
