"""
The limits of a handler, and the order of jobs with one key.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from tickwheel.observe.events import JobDied, JobFired, JobSucceeded
from tickwheel.scheduler import InvalidJobError, Outcome, RetryPolicy, SchedulerOptions, SetRequest
from tickwheel.targets import Call, Limits
from tickwheel.testing import ManualClock


@pytest.fixture
def scheduler(url, make):
    """
    Return a started scheduler.
    """
    return make(url).start()


class Crowd:
    """
    Counts the handlers that run at the same time.
    """

    def __init__(self):
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self):
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_):
        with self._lock:
            self.inside -= 1


@pytest.mark.parametrize("limit", [1, 3])
def test_concurrency(scheduler, record, until, limit):
    """
    At most the allowed number of a handler's jobs run at once.

    All its jobs run in the end, and they delay no other handler.
    """
    crowd, go_on = Crowd(), threading.Event()

    @scheduler.handler("few", concurrency=limit)
    def few(payload):
        with crowd:
            go_on.wait(300)
            time.sleep(0.001)  # gives other handlers time to start, if the limit allows
        record(payload)

    scheduler.handler("free")(record)
    scheduler.set_many([SetRequest(f"few{n}", delay=0, handler="few", payload=n) for n in range(40)])
    scheduler.set("free", delay=0.05, handler="free", payload="free")
    assert record.wait(1) == ["free"]
    until(lambda: crowd.inside == limit)
    assert scheduler.stats()["in_flight"] == limit
    go_on.set()
    assert sorted(record.wait(41)[1:]) == list(range(40))
    assert crowd.most == limit


def test_concurrency_of_coroutines(scheduler, record):
    """
    The concurrency limit of a handler also holds for async handlers.
    """
    crowd = Crowd()

    @scheduler.handler("h", concurrency=2)
    async def handler(payload):
        with crowd:
            await asyncio.sleep(0.001)
        record(payload)

    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h", payload=n) for n in range(50)])
    assert sorted(record.wait(50)) == list(range(50))
    assert crowd.most == 2


def test_a_job_that_waits_for_its_limit_can_be_cancelled(scheduler, record):
    """
    A due job that waits for its handler's limit is still pending.

    It can be moved and cancelled, and occupies no worker.
    """
    go_on = threading.Event()

    @scheduler.handler("h", concurrency=1)
    def handler(payload):
        record(payload)
        go_on.wait(300)

    scheduler.set("first", delay=0, handler="h", payload="first")
    record.wait(1)
    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h", payload=n) for n in range(5)])
    assert scheduler.cancel("k0").outcome is Outcome.CANCELLED
    assert scheduler.move("k1", delay=3600).outcome is Outcome.MOVED
    go_on.set()
    assert sorted(record.wait(4)[1:]) == [2, 3, 4]
    assert scheduler.stats()["pending"] == 1


@pytest.mark.parametrize("running_max", [1, 2, 100])
def test_a_limit_and_little_room(url, make, record, running_max):
    """
    All jobs of limited handlers run, even if the scheduler itself may run only a few jobs at once.
    """
    scheduler = make(url, options=SchedulerOptions(running_max=running_max)).start()
    scheduler.handler("a", concurrency=2)(record)
    scheduler.handler("b", concurrency=1, rate=10_000)(record)
    scheduler.handler("c")(record)
    names = "abc"
    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler=names[n % 3], payload=n) for n in range(150)])
    assert sorted(record.wait(150)) == list(range(150))


def test_rate(scheduler, events):
    """
    A handler with a rate starts its jobs evenly spaced.

    No job starts before its due time.
    """
    told = events(scheduler)
    scheduler.handler("h", rate=100)(lambda _: None)
    at = time.time() + 0.1
    scheduler.set_many([SetRequest(f"k{n}", at=at, handler="h") for n in range(30)])
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 30)
    lateness = sorted(each.lateness_ms for each in told.of(JobFired))
    assert all(late >= 10 * n for n, late in enumerate(lateness))


class Paced:
    """
    A target with a rate.
    """

    def __init__(self, rate):
        self._limits = Limits(rate=rate)

    def check(self, handler):
        pass

    def limits(self, handler):
        return self._limits

    def resolve(self, handler):
        async def send(_):
            pass

        return Call(send, is_async=True)

    async def close(self):
        pass


@pytest.mark.parametrize("handlers", [("orders", "mails", "bills"), [f"amqp://a/{n}" for n in range(3)]])
def test_the_rate_of_a_target(url, make, events, handlers):
    """
    All jobs for one receiver share the rate of the receiver's target, even if their queues and paths differ.
    """
    scheduler = make(url, targets={"there": Paced(100)}).start()
    told = events(scheduler)
    at = time.time() + 0.1
    scheduler.set_many([SetRequest(f"k{n}", at=at, target="there", handler=handlers[n % 3]) for n in range(30)])
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 30)
    lateness = sorted(each.lateness_ms for each in told.of(JobFired))
    assert all(late >= 10 * n for n, late in enumerate(lateness))


def test_rates_of_receivers_are_separate_and_forgotten(make, events, engines):
    """
    The rate limit of one address delays no job for another address.

    The number of remembered addresses is bounded.
    """
    scheduler = make("memory://", targets={"there": Paced(1)}).start()
    told = events(scheduler)
    lanes = engines[0]._claims._lanes
    for start in (0, 1_000, 2_000):
        wanted = [
            SetRequest(f"k{n}", delay=0, target="there", handler=f"http://a{n}/") for n in range(start, start + 1_000)
        ]
        scheduler.set_many(wanted)
        told.wait_for(lambda n=start + 1_000: sum(isinstance(each, JobSucceeded) for each in told.items) == n)
    for lane in lanes._lanes.values():
        lane.next_at = 0.0  # as if a second had passed
    scheduler.set_many([SetRequest(f"j{n}", delay=0, target="there", handler=f"http://b{n}/") for n in range(2_000)])
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 5_000)
    assert len(lanes._lanes) <= 3_000


def test_a_job_that_is_admitted_twice(make, record, engines):
    """
    A job that is admitted twice counts only once towards the limit of its handler.

    This happens if the previous run of its key ends while the job is being admitted.
    """
    scheduler = make("memory://").start()
    scheduler.handler("h", concurrency=2)(record)
    scheduler.set("far", delay=60, handler="h")
    (owner,) = engines
    [entry], _ = owner.staged.stage([scheduler.get("far")], 1, is_news=False)
    lanes = owner._claims._lanes
    for last in ((), [entry]):
        assert lanes.admit([entry]) == lanes.admit([entry]) == [entry]
        lanes.leave([entry])
        lanes.leave(last)
        assert lanes._lanes["handler:h"].busy == 0
    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="h", payload=n) for n in range(9)])
    assert sorted(record.wait(9)) == list(range(9))


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_no_limit_of_time(scheduler, events, executor):
    """
    A timeout or a stop limit that is longer than the system can wait means no limit.
    """
    told = events(scheduler)
    for name, seconds in (("inf", math.inf), ("1e300", 1e300), ("days", 40 * 86_400)):
        scheduler.handler(name, timeout=seconds, executor=executor)(time.sleep)
        scheduler.set(name, delay=0, handler=name, payload=0)
        assert told.of(JobSucceeded, name)
    scheduler.set("slow", delay=0, handler="inf", payload=0.3)
    assert told.of(JobFired, "slow")
    assert scheduler.stop(math.inf) == []
    assert told.of(JobSucceeded, "slow")


@pytest.mark.parametrize(
    ("name", "value"), [("concurrency", 0), ("concurrency", 1.5), ("rate", -1), ("rate", float("nan")), ("timeout", 0)]
)
def test_bad_limits(scheduler, name, value):
    """
    A limit that is not positive is refused.
    """
    with pytest.raises(InvalidJobError, match=f"{name} is {value}"):
        scheduler.handler("h", **{name: value})(lambda _: None)


def test_order_within_a_key(scheduler, record):
    """
    If a job is set again and again while it runs, its generations run one at a time, and the last one runs last.
    """
    crowd = Crowd()

    @scheduler.handler("h")
    def handler(payload):
        with crowd:
            time.sleep(0.002)  # gives the next job time to start, if the order allows
            record(payload)

    for n in range(60):
        scheduler.set("k", delay=0, handler="h", payload=n)
        time.sleep(0.001)
    record.wait_for(lambda: 59 in record.items)
    assert crowd.most == 1
    assert record.items == sorted(record.items)


def test_a_busy_key_delays_no_other(scheduler, record, until):
    """
    While a job waits because an earlier generation of its key runs, jobs of other keys fire.
    """
    go_on = threading.Event()
    scheduler.handler("slow")(lambda _: go_on.wait(300))
    scheduler.handler("h")(record)
    scheduler.set("k", delay=0, handler="slow")
    until(lambda: scheduler.stats()["in_flight"])
    scheduler.set("k", delay=0, handler="h", payload="k")
    scheduler.set("other", delay=0.02, handler="h", payload="other")
    assert record.wait(1) == ["other"]
    go_on.set()
    assert record.wait(2) == ["other", "k"]


@pytest.mark.parametrize("is_async", [False, True])
def test_heartbeat(url, make, events, is_async):
    """
    A handler that reports progress may run longer than its timeout.
    """
    clock = ManualClock()
    scheduler = make(url, clock=clock).start()
    told = events(scheduler)

    def long(_payload, firing):
        for _ in range(8):
            assert firing.heartbeat()
            clock.advance(1)  # time passes while the handler works

    async def long_async(_payload, firing):
        for _ in range(8):
            assert firing.heartbeat()
            clock.advance(1)

    policy = RetryPolicy(attempts=1)
    scheduler.handler("h", timeout=5, retry=policy)(long_async if is_async else long)
    scheduler.set("k", delay=0, handler="h")
    told.wait_for(lambda: any(isinstance(each, JobSucceeded | JobDied) for each in told.items))
    assert isinstance(told.items[-1], JobSucceeded)


def test_a_heartbeat_that_comes_too_late(scheduler, record, events):
    """
    A heartbeat after the timeout raises in the handler, because the attempt no longer counts.
    """
    told = events(scheduler)

    @scheduler.handler("h", timeout=0.02, retry=RetryPolicy(attempts=1))
    def handler(_payload, firing):
        told.of(JobDied)
        record(firing.heartbeat())

    scheduler.set("k", delay=0, handler="h")
    assert record.wait(1) == [False]
