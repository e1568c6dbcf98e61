"""
Pairs of features are used on one job.

No run may be lost or repeated, and the fields of the job stay correct.
"""

from __future__ import annotations

import pytest

from tickwheel.scheduler import DeadLetter, RetryPolicy, Snooze, State
from tickwheel.testing import InlineScheduler, ManualClock

START = 1_000_000_000
DAY = 86_400


@pytest.fixture
def clock():
    """
    Return a manual clock that begins at a whole second.
    """
    return ManualClock(0, wall=START)


@pytest.fixture
def scheduler(clock):
    """
    Return a started scheduler that uses `clock`.
    """
    with InlineScheduler(clock) as scheduler:
        yield scheduler


@pytest.fixture
def runs(scheduler, clock):
    """
    Return a list of the runs of handler "h", in seconds from the start.

    The list's attribute `ends` has the results that the next runs return.
    """
    made = Runs()

    @scheduler.handler("h")
    def handler(_payload):
        made.append(clock.wall_ns() / 1e9 - START)
        end = made.ends.pop(0) if made.ends else None
        if isinstance(end, Exception):
            raise end
        return end

    return made


class Runs(list):
    """
    The start times of runs.

    `ends` has the results that the next runs return.
    """

    def __init__(self):
        super().__init__()
        self.ends = []


def after(*waits_s, attempts=5):
    """
    Return a retry policy with the delays *waits_s*, in seconds.
    """
    waits_ms = tuple(wait * 1_000 for wait in waits_s)
    return RetryPolicy(attempts=attempts, kind="list", waits_ms=waits_ms, jitter=0, max_ms=10 * DAY * 1_000)


def due_in(scheduler, clock):
    """
    Return the seconds until the job "k" is due, and the seconds between its due time and its expiry.
    """
    job = scheduler.get("k")
    length = None if job.expires_at is None else (job.expires_at - job.due_at) / 1_000
    return job.due_at / 1_000 - clock.wall_ns() / 1e9, length


@pytest.mark.parametrize("how", ["skipped", "moved", "with a start"])
def test_a_step_back_does_not_undo_a_move(scheduler, clock, how):
    """
    If a cron job was moved past its next match, and the clock is then set back a little, the job keeps its due time.
    """
    scheduler.set("k", cron="0 * * * *", handler="h", at=START + 10 * DAY if how == "with a start" else None)
    if how == "skipped":
        scheduler.skip("k")
    elif how == "moved":
        scheduler.move("k", at=START + 10 * DAY)
    before = scheduler.get("k").due_at
    clock.advance(10)
    clock.step_wall(-1)
    clock.advance(1)
    assert scheduler.get("k").due_at == before
    clock.step_wall(7_200)
    clock.step_wall(-7_200)
    clock.advance(1)
    assert scheduler.get("k").due_at <= before


@pytest.mark.parametrize("verb", ["run_now", "move"])
def test_moved_between_two_attempts(scheduler, clock, runs, verb):
    """
    If a one-time job is moved between two attempts, the time from its due time to its expiry does not become shorter.
    """
    runs.ends.append(ValueError("no"))
    scheduler.set("k", delay=10, expires=300, handler="h", retry=after(600))
    clock.advance(70)
    if verb == "run_now":
        scheduler.run_now("k")
        clock.advance(1)
        assert runs == [10, 70]
        return
    scheduler.move("k", delay=3_600)
    left_s, length = due_in(scheduler, clock)
    assert (left_s, length) == (pytest.approx(3_600, abs=0.01), pytest.approx(310, abs=1))


@pytest.mark.parametrize("overlap", ["skip", "once", "all", "cancel"])
@pytest.mark.parametrize("misfire", ["once", "all"])
@pytest.mark.parametrize("end", [ValueError("no"), Snooze(1_200)])
def test_run_now_between_two_attempts(scheduler, clock, runs, end, misfire, overlap):  # noqa: PLR0917  fixtures
    """
    If `run_now` is called while a job waits for a retry, the retry starts at once.

    The series then continues without an extra run.
    """
    runs.ends.append(end)
    scheduler.set("k", every=3_600, misfire=misfire, overlap=overlap, handler="h", retry=after(1_200))
    clock.advance(3_700)
    scheduler.run_now("k")
    clock.advance(3_600)
    assert runs == pytest.approx([3_600, 3_700, 7_200], abs=0.01)


def test_a_run_now_that_is_retried(scheduler, clock, runs):
    """
    If a `run_now` fails and is retried, runs that were skipped before the `run_now` do not come back.

    This holds whether or not the job has `expires`.
    """
    for expires in (None, 600):
        runs.clear()
        begun = clock.wall_ns() / 1e9 - START
        scheduler.set("k", every=3_600, expires=expires, handler="h", retry=after(60), mode="restart")
        scheduler.skip("k")
        clock.advance(100)
        scheduler.run_now("k")
        runs.ends.append(ValueError("no"))
        clock.advance(61)
        assert due_in(scheduler, clock)[1] == expires
        clock.advance(3_600 * 2)
        assert [run - begun for run in runs] == pytest.approx([100, 160, 7_200], abs=0.01)


def test_snoozed_dead_and_replayed_again_and_again(scheduler, clock, runs):
    """
    Each replay gives the job at least its original time to expiry.

    This holds however often the job was snoozed or became a dead letter.
    """
    scheduler.set("k", delay=0, expires=300, handler="h")
    for _ in range(4):
        runs.ends += [Snooze(120), DeadLetter("no")]
        clock.advance(0)
        clock.advance(121)
        assert scheduler.get("k").state is State.DEAD
        scheduler.replay("k")
        assert due_in(scheduler, clock)[1] >= 299.9
    assert len(runs) == 8


def test_another_rule_for_a_run_that_is_snoozed(scheduler, clock, runs):
    """
    A run that is snoozed past its expiry is omitted.

    If the rule is changed while the run is snoozed, the next run still gets its full time to expiry.
    """
    runs.ends.append(Snooze(400))
    scheduler.set("k", every=3_600, expires=300, handler="h")
    clock.advance(3_601)
    scheduler.change("k", every=1_800)
    clock.advance(401)
    assert (len(runs), due_in(scheduler, clock)[1]) == (1, 300)
    clock.advance(1_400)
    assert len(runs) == 2


def test_fewer_attempts_than_were_made(scheduler, clock, runs):
    """
    If a new policy allows fewer attempts than a run has used, the run gets one more attempt, and the series continues.
    """
    runs.ends += [ValueError("no")] * 4
    scheduler.set("k", every=3_600, handler="h", retry=after(60, attempts=10))
    clock.advance(3_600 + 130)
    assert scheduler.get("k").attempt == 3
    scheduler.change("k", retry=after(60, attempts=2))
    clock.advance(60)
    job = scheduler.get("k")
    assert (job.state, job.error) == (State.PENDING, "ValueError: no")
    clock.advance(3_600)
    assert len(runs) == 5


@pytest.mark.parametrize("ends", [[DeadLetter("no")], [ValueError("no"), DeadLetter("no")]])
def test_a_replayed_series_continues_with_one_run(scheduler, clock, runs, ends):
    """
    A dead series that is replayed continues with a single run.

    This holds whichever attempt made it a dead letter, and for every misfire policy.
    """
    runs.ends += ends
    scheduler.set("k", every=60, misfire="all", handler="h", retry=after(1))
    clock.advance(100)
    before = len(runs)
    clock.advance(3_600)
    scheduler.replay("k")
    clock.advance(1)
    assert len(runs) == before + 1


@pytest.mark.parametrize("end", [ValueError("no"), Snooze(1)])
def test_missed_runs_that_a_retry_delays(scheduler, clock, runs, end):
    """
    If a retry delays missed runs, all of them still take place.

    This holds although `overlap="skip"` omits runs that become due during a run.
    """
    runs.ends.append(end)
    scheduler.set("k", every=60, misfire="all", overlap="skip", handler="h", retry=after(1))
    scheduler.pause("k")
    clock.advance(310)
    scheduler.resume("k")
    clock.advance(5)
    assert len(runs) == 6
    assert due_in(scheduler, clock)[0] == pytest.approx(45, abs=0.01)


@pytest.mark.parametrize("misfire", ["once", "all", "skip"])
def test_skip_of_an_overdue_run(scheduler, clock, runs, misfire):
    """
    A skip omits the overdue run and all later runs that are already due.

    So the next run is in the future.
    """
    scheduler.set("k", every=60, misfire=misfire, handler="h")
    scheduler.pause("k")
    clock.advance(200)
    scheduler.skip("k")
    scheduler.resume("k")
    clock.advance(1)
    assert runs == []
    clock.advance(39)
    assert runs == [pytest.approx(240, abs=0.01)]
