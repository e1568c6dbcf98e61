"""
Future jobs are staged (loaded into memory).

The tests cover the horizon, a lack of room, writes of other processes, and a manual clock.
"""

from __future__ import annotations

import time

import pytest

from tickwheel.observe.events import JobFired, JobSucceeded, SettleRefused, StoreFailed
from tickwheel.scheduler import SchedulerOptions, SetRequest, StoreError
from tickwheel.stores import MemoryStore
from tickwheel.testing import ManualClock

HOUR = 3600


@pytest.fixture
def clock():
    """
    Return a manual clock.
    """
    return ManualClock(wall=1_700_000_000.0)


def fired_at(told, count):
    """
    Return the keys of *count* firings, and the lateness of each in ms.
    """
    found = told.wait_for(lambda: sum(isinstance(each, JobFired) for each in told.items) >= count)
    return [(each.key, each.lateness_ms) for each in found if isinstance(each, JobFired)]


def done(told, count):
    """
    Wait until *count* firings have succeeded and have been acknowledged.
    """
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) >= count)


def test_far_jobs_fire_on_time(url, make, clock, events):
    """
    Jobs that are minutes, days and decades ahead fire in order.

    No job fires before its due time.
    """
    scheduler = make(url, clock=clock).start()
    told = events(scheduler)
    scheduler.handler("h")(lambda _: None)
    delays = {"minutes": 600, "day": 86_400, "decades": 40 * 365.25 * 86_400}
    for key, delay in delays.items():
        scheduler.set(key, delay=delay, handler="h")
    passed = 0.0
    for count, (key, delay) in enumerate(delays.items(), 1):
        clock.advance(delay - passed - 0.01)
        passed = delay - 0.01
        assert scheduler.get(key) is not None
        assert len([each for each in told.items if isinstance(each, JobFired)]) == count - 1
        clock.advance(0.02)
        passed += 0.02
        assert fired_at(told, count)[-1][0] == key
    assert all(late >= 0 for _, late in fired_at(told, 3))


def test_nothing_is_staged_beyond_the_horizon(url, make, clock, record, until):
    """
    Jobs beyond the horizon stay in the store.

    While no job is staged, the engine has only one timer, for the next scan.
    """
    scheduler = make(url, clock=clock, options=SchedulerOptions(horizon_s=5.0)).start()
    scheduler.handler("h")(record)
    scheduler.set_many([SetRequest(f"far{n}", delay=HOUR + n, handler="h") for n in range(100)])
    scheduler.set_many([SetRequest(f"near{n}", delay=1, handler="h", payload=n) for n in range(10)])
    until(lambda: scheduler.stats()["staged"] == 10)
    clock.advance(1.1)
    assert sorted(record.wait(10)) == list(range(10))
    assert scheduler.stats()["staged"] == 0


def test_more_jobs_than_room(url, make, record, engines):
    """
    If far more jobs are due than may be staged or running, each job fires once, and the limits hold.
    """
    scheduler = make(url, options=SchedulerOptions(staged_max=100, running_max=50))
    scheduler.handler("h")(record)
    at = time.time() + 0.2
    scheduler.set_many([SetRequest(f"k{n}", at=at, handler="h", payload=n) for n in range(3000)])
    scheduler.start()
    most = [0, 0]
    while len(record.items) < 3000:
        staged = engines[0].staged
        most = [max(most[0], staged.waiting), max(most[1], staged.busy)]
        time.sleep(0.001)
    assert sorted(record.items) == list(range(3000))
    assert most[0] <= 1100  # staged_max plus one page
    assert most[1] <= 50


def test_set_while_full(url, make, record):
    """
    Jobs that are set while the memory for staged jobs is full stay in the store, and fire later.
    """
    scheduler = make(url, options=SchedulerOptions(staged_max=10, running_max=5)).start()
    scheduler.handler("h")(record)
    scheduler.set_many([SetRequest(f"k{n}", delay=0.2, handler="h", payload=n) for n in range(500)])
    assert sorted(record.wait(500)) == list(range(500))


@pytest.mark.parametrize("is_before", [True, False], ids=["before the start", "after it"])
def test_a_refused_job_is_staged_later(url, make, clock, record, until, is_before):  # noqa: PLR0917  fixtures
    """
    If a lane has more jobs than may be staged, each further job is staged after other jobs of the lane have run.

    Each job runs once, at its due time or later.
    """
    scheduler = make(url, clock=clock, options=SchedulerOptions(staged_max=20, horizon_s=HOUR))
    scheduler.handler("h")(record)
    jobs = [SetRequest(f"k{n}", delay=10 + n, handler="h", payload=n) for n in range(40)]
    if is_before:
        scheduler.set_many(jobs)
    scheduler.start()
    if not is_before:
        scheduler.set_many(jobs)
    until(lambda: scheduler.stats()["staged"] == 15)
    clock.advance(10)
    for ran in range(1, 41):
        assert record.wait(ran) == list(range(ran))
        assert scheduler.stats()["staged"] <= 15
        clock.advance(1)
    assert len(record.items) == 40


def test_another_process_writes(file_url, make, clock, record, events):
    """
    If another client of the file changes jobs, the owner follows these changes.
    """
    owner, client = make(file_url, clock=clock).start(), make(file_url, clock=clock)
    told = events(owner)
    owner.handler("h")(record)
    client.set("now", delay=0, handler="h", payload="now")
    assert record.wait(1) == ["now"]
    for key in ("moved", "cancelled", "kept"):
        owner.set(key, delay=0.4, handler="h", payload=key)
    client.move("moved", delay=0.1)
    client.cancel("cancelled")
    clock.advance(0.2)
    assert record.wait(2) == ["now", "moved"]
    clock.advance(0.3)
    assert record.wait(3) == ["now", "moved", "kept"]
    done(told, 3)
    assert client.stats()["pending"] == 0


def test_another_process_wakes_an_idle_owner(file_url, make, clock, record, until, engines):  # noqa: PLR0917  fixtures
    """
    If an owner is idle, because there is no job to wait for, it finds a job that a client sets for a later time.
    """
    owner, client = make(file_url, clock=clock).start(), make(file_url, clock=clock)
    owner.handler("h")(record)
    job = client.set("k", delay=HOUR, handler="h", payload=1).job
    assert job is not None
    until(lambda: engines[0].wheel()["pending"])
    clock.advance(HOUR + 1)
    assert record.wait(1) == [1]


def test_wall_clock_stepped_forward(url, make, clock, record):
    """
    If the wall clock is set forward, the jobs that are now due fire at once.
    """
    scheduler = make(url, clock=clock).start()
    scheduler.handler("h")(record)
    scheduler.set("k", at=clock.wall_ns() / 1e9 + HOUR, handler="h", payload=1)
    clock.step_wall(2 * HOUR)
    assert record.wait(1) == [1]


def test_wall_clock_stepped_back(url, make, clock, record, events, until):  # noqa: PLR0917  fixtures
    """
    If the wall clock is set back, a job waits until the clock reaches its due time again.

    It fires once, and never early.
    """
    scheduler = make(url, clock=clock).start()
    told = events(scheduler)
    scheduler.handler("h")(record)
    scheduler.set("k", at=clock.wall_ns() / 1e9 + 5, handler="h", payload=1)
    until(lambda: scheduler.stats()["staged"])
    clock.step_wall(-HOUR)
    clock.advance(60)
    assert record.items == []
    clock.advance(HOUR)
    done(told, 1)
    assert record.items == [1]
    assert all(late >= 0 for _, late in fired_at(told, 1))


class FaultyStore(MemoryStore):
    """
    A store whose next calls can be made to fail, before or after they take effect.
    """

    def __init__(self, clock=None):
        super().__init__(clock)
        self.failing = {}

    def fail(self, name, times, *, after=False):
        """
        Let the next *times* calls of *name* fail, before or after their effect.
        """
        self.failing[name] = [times, after]

    def _maybe_fail(self, name, call):
        times, after = self.failing.get(name, (0, False))
        if not times:
            return call()
        self.failing[name][0] -= 1
        if after:
            call()
        what = f"the test broke {name}"
        raise StoreError(what, "try again", is_transient=not after, is_unknown=after)

    def apply(self, writes):
        """
        Apply *writes*, or fail.
        """
        return self._maybe_fail("apply", lambda: super(FaultyStore, self).apply(writes))

    def due(self, shard, until, after, limit):
        """
        Return due jobs, or fail.
        """
        return self._maybe_fail("due", lambda: super(FaultyStore, self).due(shard, until, after, limit))


def test_reads_that_fail(make, events, record):
    """
    A scan that gets no answer from the store is repeated.

    No job is lost.
    """
    store = FaultyStore()
    scheduler = make(store)
    told = events(scheduler)
    scheduler.handler("h")(record)
    scheduler.set_many([SetRequest(f"k{n}", delay=0.1, handler="h", payload=n) for n in range(20)])
    store.fail("due", 1)
    scheduler.start()
    assert sorted(record.wait(20)) == list(range(20))
    assert any(isinstance(each, StoreFailed) and each.doing == "staging jobs" for each in told.items)


class CountingStore(MemoryStore):
    """
    A store that counts the scans of its owner.
    """

    scans = 0

    def look(self, *args, **options):
        """
        Scan, and count the scan.
        """
        self.scans += 1
        return super().look(*args, **options)


def test_a_near_set_needs_no_scan(make, record, until):
    """
    If a job that is due soon is set while no job is pending, it fires without a scan of the store.
    """
    store = CountingStore()
    scheduler = make(store, options=SchedulerOptions(horizon_s=HOUR)).start()
    scheduler.handler("h")(record)
    until(lambda: store.scans)
    time.sleep(0.3)  # wait for the end of the last scan of the start
    before = store.scans
    scheduler.set("k", delay=0.3, handler="h")  # due too late to be claimed in the commit that sets it
    record.wait(1)
    until(lambda: scheduler.get("k") is None)
    assert store.scans == before


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_writes_that_fail(make, events, record, after):
    """
    Claims and acknowledgements without an answer are written again.

    Each job fires once, even if the first write took effect.
    """
    store = FaultyStore()
    scheduler = make(store).start()
    told = events(scheduler)

    @scheduler.handler("h")
    def handler(payload):
        store.fail("apply", 1, after=after)  # fails the acknowledgement
        record(payload)

    scheduler.set("k", delay=0.2, handler="h", payload=1)
    store.fail("apply", 1, after=after)  # fails the claim
    told.wait_for(lambda: any(isinstance(each, JobSucceeded | SettleRefused) for each in told.items))
    assert record.items == [1]
    assert scheduler.get("k") is None


def test_a_set_with_an_unknown_outcome(make, record):
    """
    If the outcome of setting a job is unknown, the job fires if it was written.
    """
    store = FaultyStore()
    scheduler = make(store).start()
    scheduler.handler("h")(record)
    scheduler.set("first", delay=0, handler="h", payload="first")
    record.wait(1)
    store.fail("apply", 1, after=True)
    with pytest.raises(StoreError, match="the test broke apply"):
        scheduler.set("k", delay=0.2, handler="h", payload="k")
    assert record.wait(2) == ["first", "k"]


def test_a_series_survives_an_unknown_settle(make, record):
    """
    If the acknowledgement of a run takes effect, but its answer is lost, the recurring job continues.
    """
    store = FaultyStore()
    scheduler = make(store).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        record(firing.job.generation)
        if len(record.items) == 1:
            store.fail("apply", 1, after=True)

    scheduler.set("k", every=0.05, handler="h")
    assert len(set(record.wait(4))) == 4
