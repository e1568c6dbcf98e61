"""
Leases that expire.

A lease is renewed in time, is not trusted shortly before it expires, and may be lost or handed over.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tickwheel.clock import MonotonicClock
from tickwheel.engine._leases import Leases
from tickwheel.host.hooks import Hooks
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.model import Begin
from tickwheel.observe.events import OwnershipLost, StoreFailed
from tickwheel.scheduler import LeaseEndedError, SchedulerOptions, SetRequest, StoreError
from tickwheel.stores import Abilities, Lease, MemoryStore


class Leasing(MemoryStore):
    """
    A store in memory whose leases expire, with a clock of its own.
    """

    abilities = Abilities(has_many_owners=True, first_tail=1_000_000)

    def __init__(self, length_ms=300, offset_ms=0):
        super().__init__()
        self.length_ms = length_ms
        self.offset_ms = offset_ms
        self.renewals_in_time = 0
        self._until_ms = 0
        self.is_down = False
        self.is_lost = False
        self.tail = 0
        self.on_begun = None

    def now_ms(self):
        """
        Read the store's clock, which may differ from the machine's clock.
        """
        return super().now_ms() + self.offset_ms

    def apply(self, writes):
        """
        Apply *writes*.

        After a claim, call the test's function before the answer is returned.
        """
        answers = super().apply(writes)
        if self.on_begun is not None and any(isinstance(write, Begin) for write in writes):
            self.on_begun()
        return answers

    def acquire(self, owner):
        """
        Take or keep the lease.
        """
        if self._owner == owner:
            return self.renew(owner)
        return [self._ending(lease) for lease in super().acquire(owner)]

    def renew(self, owner):
        """
        Extend the lease, unless the store is down or the lease is lost.
        """
        if self.is_down:
            what = "the test took the store down"
            raise StoreError(what, "wait", is_transient=True)
        if self.is_lost:
            return []
        self.renewals_in_time += self.now_ms() < self._until_ms
        return [self._ending(lease) for lease in super().renew(owner)]

    def lose_and_regain(self):
        """
        Lose the lease and get it back before the next renewal.
        """
        self._epoch = 2

    def is_owned(self):
        """
        Return whether an owner has the lease.
        """
        return self._owner is not None

    def _ending(self, lease):
        self._until_ms = self.now_ms() + self.length_ms
        return replace(lease, until=self._until_ms, shard=lease.shard + self.tail)


def test_renewed(make, record, until):
    """
    A lease is renewed well before it expires, so a node keeps it for many times its length.
    """
    store = Leasing(length_ms=90)
    scheduler = make(store).start()
    scheduler.handler("h")(record)
    scheduler.set("k", delay=0.4, handler="h", payload=1)
    assert record.wait(1) == [1]
    until(lambda: store.renewals_in_time >= 5)
    scheduler.stop()
    assert not store.is_owned()


def test_no_renewal_without_an_end(make):
    """
    A lease that never expires needs no renewal thread.
    """
    before = set(threading.enumerate())
    make("memory://").start()
    assert not [each for each in set(threading.enumerate()) - before if "lease" in each.name]


def test_distrusted_when_the_store_is_silent(make, record, events, until, engines):
    """
    If renewals fail, the node stops claiming and firing before its lease expires.

    The node continues when the store answers again.
    """
    store = Leasing(length_ms=300)
    scheduler = make(store).start()
    told = events(scheduler)
    scheduler.handler("h")(record)
    leases = engines[0].leases
    until(lambda: scheduler.is_ready)

    def fail():
        store.on_begun, store.is_down, failures = None, True, leases.failures
        until(lambda: leases.failures > failures)  # no renewal that has begun can still succeed
        leases._trusted_until = 0.0  # as if the lease had expired while the job waited for its due time

    store.on_begun = fail
    scheduler.set("begun", delay=0.4, handler="h", payload=1)
    scheduler.set("near", delay=0.8, handler="h", payload=2)
    told.wait_for(lambda: any(isinstance(each, StoreFailed) for each in told.items))
    until(lambda: engines[0]._claims._held)
    assert record.items == []
    until(lambda: not scheduler.is_ready)
    assert scheduler.is_started
    store.is_down = False
    assert sorted(record.wait(2)) == [1, 2]
    until(lambda: scheduler.is_ready)
    scheduler.stop()
    assert not scheduler.is_ready


def test_lost(make, events, record):
    """
    A node no longer fires jobs of a shard that it has lost.

    It acquires the shard again when the shard is free.
    """
    store = Leasing(length_ms=60)
    scheduler = make(store).start()
    told = events(scheduler)
    scheduler.handler("h")(record)
    store.is_lost = True
    told.wait_for(lambda: any(isinstance(each, OwnershipLost) for each in told.items))
    scheduler.set("k", delay=0, handler="h", payload=1)
    assert scheduler.stats()["shards"] == []
    store.is_lost = False
    assert record.wait(1) == [1]


@pytest.mark.parametrize("offset_ms", [-3_600_000, 86_400_000])
def test_the_stores_clock_counts(make, record, offset_ms):
    """
    Delays and lateness follow the store's clock, however much this clock differs from the machine's.
    """
    store = Leasing(length_ms=1000, offset_ms=offset_ms)
    scheduler = make(store, options=SchedulerOptions(owner="me")).start()

    @scheduler.handler("h")
    def handler(_payload, firing):
        record(firing)

    due_at = scheduler.set("k", delay=0.1, handler="h").job.due_at
    assert abs(due_at - store.now_ms()) < 10_000
    (firing,) = record.wait(1)
    assert 0 <= firing.lateness_ms < 10_000
    stats = scheduler.stats()
    assert abs(stats["offset_ms"] - offset_ms) < 1_000
    assert stats["owner"].startswith("me:")


def test_pulled_jobs_end_with_the_lease_of_their_shard(make, until):
    """
    A pull worker's lease of a job ends when the node loses the job's shard, even if the node gets it back at once.
    """
    store = Leasing(length_ms=90)
    scheduler = make(store).start()
    scheduler.set("k", delay=0, target="pull", handler="q")
    (lease,) = scheduler.lease("q", wait=60, seconds=600)
    store.tail = 1_000_000  # the shard is handed over, but its running jobs stay with this node
    until(lambda: scheduler.stats()["tails"] == [1_000_000])
    renewals = store.renewals_in_time
    until(lambda: store.renewals_in_time > renewals + 1)
    assert scheduler.extend(lease.fire_id, 600) > lease.until
    assert scheduler.stats()["in_flight"] == 1
    store.tail = 0
    store.lose_and_regain()
    until(lambda: scheduler.stats()["refused"] == 1)
    stats = scheduler.stats()
    assert (stats["in_flight"], stats["pull"], stats["fired"]) == (0, {}, 1)
    for ask in (lambda: scheduler.extend(lease.fire_id, 600), lambda: scheduler.ack(lease.fire_id)):
        with pytest.raises(LeaseEndedError, match="another process has taken its shard over"):
            ask()


class Hanging(Leasing):
    """
    A leasing store whose reports hang if the test says so.
    """

    def __init__(self):
        super().__init__(length_ms=90)
        self.is_reported, self.may_go_on = threading.Event(), threading.Event()
        self.may_go_on.set()

    def report(self, owner, figures):
        """
        Hang if the test says so.
        """
        if not self.may_go_on.is_set():
            self.is_reported.set()
        assert self.may_go_on.wait(60), (owner, figures)


@pytest.mark.parametrize("hanging", ["report", "hook of a loss", "hook of a failure", "log"])
def test_only_renewals_are_made_in_the_thread_that_renews(make, record, until, hanging, caplog):
    """
    The renewal thread only renews leases.

    So a slow report, hook or log delays neither renewals nor jobs.
    """
    store = Hanging()
    scheduler = make(store).start()
    scheduler.handler("h")(record)
    hangs, goes_on = store.is_reported, store.may_go_on

    def hang(*_):
        if not goes_on.is_set():
            hangs.set()
            assert goes_on.wait(60)
        return True

    if hanging == "report":
        goes_on.clear()
    elif hanging == "log":
        caplog.handler.addFilter(hang)
        goes_on.clear()
        store.acquire = raising_once(store.acquire, RuntimeError("not a store's"))
    else:
        scheduler.subscribe(hang, routine=False)
        goes_on.clear()
        if hanging == "hook of a loss":
            store.lose_and_regain()
        else:
            store.acquire = raising_once(store.acquire, StoreError("down", "wait", is_transient=True))
    try:
        assert hangs.wait(60)
        renewals = store.renewals_in_time
        until(lambda: store.renewals_in_time >= renewals + 10)
        scheduler.set("k", delay=0, handler="h", payload=1)
        assert record.wait(1) == [1]
        assert not goes_on.is_set()
    finally:
        goes_on.set()
        caplog.handler.removeFilter(hang)


def raising_once(function, error):
    """
    Return a function that raises *error* at its first call, and calls *function* afterwards.
    """
    errors = [error]

    def call(*arguments):
        if errors:
            raise errors.pop()
        return function(*arguments)

    return call


class Noting(Leasing):
    """
    A leasing store that records the scans of its owner.
    """

    def __init__(self):
        super().__init__(length_ms=90)
        self.reads = []

    def look(self, cursors, until, limit, *, with_changes):
        """
        Record the start of the scan.
        """
        self.reads += [(cursor.after, cursor.mark, with_changes) for cursor in cursors]
        return super().look(cursors, until, limit, with_changes=with_changes)


def test_a_regained_shard_is_marked_before_the_scan(make, until):
    """
    Before an owner scans a new or regained shard, it records the position of the latest change in the store.

    So it reads every later write of another process as a change.
    """
    store = Noting()
    scheduler = make(store).start()
    until(lambda: store.reads and scheduler.stats()["epoch"] == 1)
    store.lose_and_regain()
    until(lambda: scheduler.stats()["epoch"] == 2)
    until(lambda: len([after for after, mark, _ in store.reads if mark is None]) >= 2)
    assert {(after, has_changes) for after, mark, has_changes in store.reads if mark is None} == {((0, 0), True)}


class Rated(MonotonicClock):
    """
    A machine's clock that runs *rate* times as fast as the store's clock.
    """

    def __init__(self, rate):
        self._rate, self._start_ns = rate, time.monotonic_ns()

    def monotonic_ns(self):
        """
        Return the time by the machine's clock.
        """
        return self._start_ns + int((time.monotonic_ns() - self._start_ns) * self._rate)

    elapsed_ns = monotonic_ns


@pytest.mark.parametrize("rate", [0.91, 0.9995, 1.0, 1.0005, 1.05, 1.099])
def test_never_early_at_any_rate(make, record, rate):
    """
    If a clock has a wrong rate, no job fires before the store's clock has reached the due time.
    """
    store = Leasing(length_ms=5_000)
    scheduler = make(store, clock=Rated(rate)).start()
    scheduler.handler("h")(lambda _payload, firing: record(store.now_ms() - firing.job.due_at))
    scheduler.set_many([SetRequest(f"k{number}", delay=0.6 + number * 0.01, handler="h") for number in range(40)])
    assert min(record.wait(40)) >= 0


class Passing:
    """
    Simulated time that passes when the tested code waits or makes a slow call.

    The object also replaces the stop event of the tested thread. The event is set when the time reaches *until*.
    """

    def __init__(self, until):
        self.now, self.until = 0.0, until

    def wait(self, timeout):
        """
        Let the time pass, and return True if it has reached *until*.
        """
        self.now += timeout
        return self.now >= self.until

    def is_set(self):
        """
        Return True if the time has reached *until*.
        """
        return self.now >= self.until


@pytest.mark.parametrize(("call_s", "tries"), [(2.0, 3), (1.0, 5), (0.0, 6), (5.0, 1)])
def test_a_renewal_that_failed_is_tried_again_soon(call_s, tries):
    """
    A failed renewal is retried soon, while the lease is still trusted.
    """
    time_, store, begun = Passing(until=7.9), Leasing(), []
    runtime = replace(Runtime(), monotonic=lambda: time_.now, event=lambda: time_)
    resources = SimpleNamespace(
        store=store, owner="me", clock=StoreClock(Runtime()), hooks=Hooks(Runtime()), runtime=runtime
    )
    callbacks = SimpleNamespace(set_leases=lambda *_: None, on_renewed=lambda: None, on_renewal_failed=lambda: None)
    leases = Leases(resources, callbacks)
    leases.held = (Lease(0, 1, until=10_000, granted_at=0),)

    def fail(_owner):
        begun.append(time_.now)
        time_.now += call_s
        raise StoreError("down", "wait", is_transient=True)

    store.renew = fail
    leases._renew()
    assert len(begun) == leases.failures == tries
    assert begun[0] == pytest.approx(10 / 3)
