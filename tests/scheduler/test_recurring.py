"""
Recurring jobs, with a manual clock.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime

import pytest

from tickwheel.observe.events import JobDied, JobExpired, JobFailed, JobFired, JobSucceeded
from tickwheel.scheduler import DeadLetter, Outcome, RecurrenceError, RetryPolicy, State
from tickwheel.testing import ManualClock

NOON = 1_700_000_000.0
DAY = 86_400


@pytest.fixture
def clock():
    """
    Return a manual clock that begins at a whole second.
    """
    return ManualClock(wall=NOON)


@pytest.fixture
def scheduler(url, make, clock):
    """
    Return a started scheduler that uses `clock`.
    """
    return make(url, clock=clock).start()


def ends(told, kind, count):
    """
    Wait until there are *count* events of *kind*, and return them.
    """
    found = told.wait_for(lambda: sum(isinstance(each, kind) for each in told.items) >= count)
    return [each for each in found if isinstance(each, kind)]


def test_every(scheduler, clock, events):
    """
    The runs of an interval stay in phase.

    Each run is a new generation under the same key, and begins with attempt 1.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    first = scheduler.set("k", every=60, handler="h").job.due_at
    assert first == NOON * 1000 + 60_000
    for count in range(1, 5):
        clock.advance(60.001)
        ends(told, JobSucceeded, count)
    fired = ends(told, JobFired, 4)
    assert [each.due_at - first for each in fired] == [0, 60_000, 120_000, 180_000]
    assert len({each.generation for each in fired}) == 4
    assert {each.attempt for each in fired} == {1}
    assert scheduler.get("k").due_at == first + 240_000


@pytest.mark.parametrize("rule", [{"every": 60}, {"cron": "@every 60s"}])
def test_the_first_run_is_never_early(make, rule):
    """
    The first run is at least one interval after the call, whatever fraction of a millisecond the clock shows.
    """
    clock = ManualClock(wall=NOON + 0.0009)
    due_at = make("memory://", clock=clock).set("k", handler="h", **rule).job.due_at
    assert due_at * 1_000_000 - clock.wall_ns() >= 60_000_000_000
    changed = make("memory://", clock=clock)
    changed.set("k", cron="@daily", handler="h")
    assert changed.change("k", every=60).job.due_at == due_at


def test_every_with_a_start(scheduler, clock, events):
    """
    If a recurring job is set with a delay, its first run takes place after the delay.

    Later runs are whole intervals after the first run.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", every=3600, at=NOON + 10, handler="h")
    clock.advance(11)
    (done,) = ends(told, JobSucceeded, 1)
    assert done.next_at == (NOON + 3610) * 1000


def test_cron(scheduler, clock, events):
    """
    A cron job fires at the times that match its line, in the zone of the job.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    job = scheduler.set("k", cron="30 9 * * *", tz="Europe/Berlin", handler="h").job
    assert datetime.fromtimestamp(job.due_at / 1000, UTC).isoformat() == "2023-11-15T08:30:00+00:00"
    for count in range(1, 4):
        clock.advance(DAY)
        ends(told, JobSucceeded, count)
    assert [(each.due_at - job.due_at) // 1000 for each in ends(told, JobFired, 3)] == [0, DAY, 2 * DAY]


@pytest.mark.parametrize(("misfire", "ended"), [("once", (1, 0)), ("all", (6, 0)), ("skip", (0, 1))])
def test_missed_runs(file_url, make, clock, events, misfire, ended):  # noqa: PLR0917  fixtures
    """
    After an outage of five and a half days, the misfire policy decides which missed daily runs are made up.
    """
    make(file_url, clock=clock).set("k", every=DAY, handler="h", misfire=misfire)
    clock.advance(6.5 * DAY)
    scheduler = make(file_url, clock=clock)
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    scheduler.start()
    following = (NOON + 7 * DAY) * 1000
    told.wait_for(lambda: any(getattr(each, "next_at", None) == following for each in told.items))
    kinds = [type(each) for each in told.items]
    assert (kinds.count(JobSucceeded), kinds.count(JobExpired)) == ended
    assert scheduler.get("k").due_at == following


@pytest.mark.parametrize("misfire", ["once", "all", "skip"])
def test_run_now_does_not_shift_a_series(scheduler, clock, events, misfire):
    """
    A `run_now` is an additional run.

    The other runs keep their due times.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    first = scheduler.set("k", every="1h", misfire=misfire, handler="h").job.due_at
    clock.advance(600)
    scheduler.run_now("k")
    assert ends(told, JobSucceeded, 1)[0].next_at == first
    clock.advance(3000.001)
    assert ends(told, JobSucceeded, 2)[1].next_at == first + 3_600_000


def test_max_runs(scheduler, clock, events):
    """
    With `max_runs`, the job is removed after its last run.

    Failed runs are counted like successful ones. Retries are not counted.
    """
    told = events(scheduler)
    outcomes = iter((None, ValueError("no"), ValueError("no"), None))

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=0))
    def handler(_payload):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    scheduler.set("k", every="1m", max_runs=3, handler="h")
    clock.advance(60.001)
    ends(told, JobSucceeded, 1)
    clock.advance(60)
    ends(told, JobDied, 1)
    assert json.loads(scheduler.get("k").recurrence)["runs"] == 2
    clock.advance(60)
    assert ends(told, JobSucceeded, 2)[1].next_at is None
    assert scheduler.get("k") is None


def test_the_last_run_fails(scheduler, clock, events):
    """
    If the last run of a series finally fails, the job becomes a dead letter.

    A replay repeats that run.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(_payload):
        raise ValueError("no")

    scheduler.set("k", every=60, max_runs=1, handler="h")
    clock.advance(60.001)
    ends(told, JobDied, 1)
    assert scheduler.get("k").state is State.DEAD
    scheduler.replay("k")
    assert [each.next_at for each in ends(told, JobDied, 2)] == [None, None]


def test_until(scheduler, clock, events):
    """
    A run exactly at `until=` is the last run.

    The job is then removed.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    scheduler.set("k", every=60, at=NOON + 60, until=datetime.fromtimestamp(NOON + 120, UTC), handler="h")
    clock.advance(60.001)
    assert ends(told, JobSucceeded, 1)[0].next_at == (NOON + 120) * 1000
    clock.advance(60)
    assert ends(told, JobSucceeded, 2)[1].next_at is None
    assert scheduler.get("k") is None


@pytest.mark.parametrize(("grace", "kind"), [("2m", JobSucceeded), ("30s", JobExpired)])
def test_the_grace_of_a_missed_run(file_url, make, clock, events, grace, kind):  # noqa: PLR0917  fixtures
    """
    With the misfire policy `skip`, a run starts if it is late by less than its grace time, and is omitted otherwise.
    """
    make(file_url, clock=clock).set("k", every="1h", handler="h", misfire="skip", misfire_grace=grace)
    clock.advance(3600 + 45)
    scheduler = make(file_url, clock=clock)
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    scheduler.start()
    ends(told, kind, 1)


def test_each_run_has_the_whole_time_to_expiry(scheduler, clock, events):
    """
    However often a run is retried, and however late it is, the next run has the whole time of `expires=` again.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=20_000, jitter=0, kind="linear"))
    def handler(_payload, firing):
        if firing.attempt == 1:
            raise ValueError("no")

    scheduler.set("k", every=60, expires=30, handler="h")
    for number in range(1, 4):
        clock.advance(60.001 if number == 1 else 40)
        ends(told, JobFailed, number)
        clock.advance(20)
        ends(told, JobSucceeded, number)
        job = scheduler.get("k")
        assert job.expires_at - job.due_at == 30_000
        assert "expires_ms" not in job.recurrence
    assert scheduler.stats()["expired"] == 0


def test_all_makes_up_for_runs_that_a_failing_run_delayed(scheduler, clock, events):
    """
    With the misfire policy `all`, no run is lost that became due during the retries of another run.

    Each of these runs takes place once.
    """
    told = events(scheduler)
    outcomes = iter((ValueError("no"), None, None, None, None))

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=150_000, jitter=0))
    def handler(_payload):
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome

    first = scheduler.set("k", every=60, misfire="all", handler="h").job.due_at
    clock.advance(60.001)
    ends(told, JobFailed, 1)
    clock.advance(150)
    done = ends(told, JobSucceeded, 3)
    assert [each.next_at - first for each in done] == [60_000, 120_000, 180_000]
    assert "run_at" not in scheduler.get("k").recurrence


@pytest.mark.parametrize(("misfire", "followed"), [("once", [180]), ("skip", [180]), ("all", [60, 120, 180])])
def test_a_run_that_takes_longer_than_its_interval(scheduler, clock, events, misfire, followed):
    """
    Two runs of a series never take place at the same time.

    If a run takes longer than its interval, the misfire policy chooses the next run afterwards.
    """
    told = events(scheduler)
    is_over = threading.Event()
    scheduler.handler("h")(lambda _: is_over.wait())
    first = scheduler.set("k", every=60, misfire=misfire, handler="h").job.due_at
    clock.advance(60.001)
    ends(told, JobFired, 1)
    clock.advance(150)
    scheduler.set("other", delay=0, handler="h")
    told.wait_for(lambda: any(isinstance(each, JobFired) and each.key == "other" for each in told.items))
    assert [each.key for each in told.items if isinstance(each, JobFired)] == ["k", "other"]
    is_over.set()
    told.wait_for(lambda: any(getattr(each, "next_at", None) == first + 180_000 for each in told.items))
    done = [each for each in told.items if isinstance(each, JobSucceeded) and each.key == "k"]
    assert [(each.next_at - first) // 1000 for each in done] == followed


def test_failures_do_not_end_a_series(scheduler, clock, events):
    """
    If all attempts of a run fail, the error is recorded, and the series continues with the next run.
    """
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=2, base_ms=0))
    def handler(_payload):
        raise ValueError("no")

    first = scheduler.set("k", every=60, handler="h").job.due_at
    clock.advance(60.001)
    (death,) = ends(told, JobDied, 1)
    assert (death.attempt, death.error, death.next_at) == (2, "ValueError: no", first + 60_000)
    job = scheduler.get("k")
    assert (job.state, job.error, job.attempt) == (State.PENDING, "ValueError: no", 0)


def test_cancel_from_inside_ends_a_series(scheduler, clock, events):
    """
    If a handler returns DeadLetter, the whole series becomes a dead letter, which can be replayed.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: DeadLetter("enough"))
    scheduler.set("k", every=60, handler="h")
    clock.advance(60.001)
    ends(told, JobDied, 1)
    assert scheduler.get("k").state is State.DEAD
    answer = scheduler.replay("k")
    assert (answer.outcome, answer.job.recurrence is not None) == (Outcome.REPLAYED, True)


def test_cancelled_while_it_runs(scheduler, clock, record, until):
    """
    If a recurring job is cancelled during a run, the run finishes, and no other run follows.
    """

    @scheduler.handler("h")
    def handler(_payload):
        record(scheduler.cancel("k").outcome)

    scheduler.set("k", every=60, handler="h")
    clock.advance(60.001)
    assert record.wait(1) == [Outcome.CANCELLED]
    until(lambda: scheduler.stats()["refused"])
    assert scheduler.get("k") is None


def test_jitter_spreads_keys(scheduler):
    """
    Jitter delays two keys with the same cron line by different times.

    The delay of a key is always the same.
    """
    dues = {scheduler.set(key, cron="@daily", jitter=3600, handler="h").job.due_at % (DAY * 1000) for key in "abcdef"}
    assert len(dues) == 6
    assert all(0 <= due <= 3_600_000 for due in dues)
    again = scheduler.set("a", cron="@daily", jitter=3600, handler="h").job.due_at % (DAY * 1000)
    assert again in dues


def test_run_now_keeps_the_phase(scheduler, clock, events):
    """
    After a `run_now` between two runs, the other runs keep their due times.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    first = scheduler.set("k", every=60, handler="h").job.due_at
    clock.advance(10)
    scheduler.run_now("k")
    clock.advance(1)
    (done,) = ends(told, JobSucceeded, 1)
    assert done.next_at == first


@pytest.mark.parametrize("start", [{}, {"at": NOON + 600}])
def test_run_now_before_the_first_run(scheduler, events, start):
    """
    A `run_now` does not change the due time of the first run, even if that time is more than an interval away.
    """
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    first = scheduler.set("k", every=60, handler="h", **start).job.due_at
    scheduler.run_now("k")
    assert ends(told, JobSucceeded, 1)[0].next_at == first


def test_the_stored_text(scheduler):
    """
    A job's recurrence is plain JSON that any client can read.
    """
    job = scheduler.set("k", cron="0 9 * * mon-fri", tz="Asia/Tokyo", handler="h", misfire="skip", jitter=1.5).job
    assert json.loads(job.recurrence) == {
        "cron": "0 9 * * MON-FRI",
        "tz": "Asia/Tokyo",
        "misfire": "skip",
        "jitter_ms": 1500,
    }


@pytest.mark.parametrize("every", [1e-9, 0.0004, 0.0015, 1 / 3, 1.00001])
def test_an_interval_with_a_fraction_of_a_millisecond(make, every):
    """
    An interval that is not a whole number of milliseconds is refused.

    Rounding would make the series drift.
    """
    with pytest.raises(RecurrenceError, match=r"least interval is 0\.001 s|whole milliseconds: pass "):
        make("memory://").set("k", every=every, handler="h")


@pytest.mark.parametrize(("every", "every_ms"), [(0.001, 1), (0.07, 70), (0.1 + 0.2, 300), (1, 1_000), (1e6, 10**9)])
def test_an_interval_is_not_lengthened(make, every, every_ms):
    """
    The rounding error of a float does not make an interval a millisecond longer.
    """
    scheduler = make("memory://")
    scheduler.handler("h")(print)
    scheduler.set("k", every=every, handler="h")
    assert json.loads(scheduler.get("k").recurrence)["every_ms"] == every_ms
