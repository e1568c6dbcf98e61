"""
An unexpected error of a store, or a lack of threads, never stops the scheduler permanently.

For example, a driver that mishandles a lost connection raises such an error.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tickwheel.engine import _records
from tickwheel.host import standby as _standby
from tickwheel.host.partitioned_writer import PartitionedWriter
from tickwheel.host.runtime import Runtime
from tickwheel.host.withdrawal_requests import WithdrawalRequests
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Settle
from tickwheel.observe.events import JobDied, JobSucceeded, StoreFailed
from tickwheel.scheduler import RetryPolicy, Scheduler, SchedulerOptions, SetRequest
from tickwheel.stores import Abilities, MemoryStore
from tickwheel.stores.sqlite import _checkpointer
from tickwheel.stores.sqlite._joining import Follower

LEASE_MS = 150


class Tripping(MemoryStore):
    """
    A store with several owners and leases.

    Calls whose numbers are in *trips_at* raise an unexpected error.
    """

    abilities = Abilities(has_many_owners=True)

    def __init__(self, trips_at):
        super().__init__()
        self.trips_at = trips_at
        self.trips = 0
        self.calls = 0

    def _may_trip(self, name):
        if name == self.trips_at:
            self.calls += 1
            if self.trips < 2 and (name != "acquire" or self.calls > 1):  # `start` makes the first call, and may raise
                self.trips += 1
                what = "file descriptor cannot be a negative integer (-1)"
                raise ValueError(what)

    def acquire(self, owner):
        self._may_trip("acquire")
        leases = super().renew(owner) if self._owner == owner else super().acquire(owner)
        return [replace(lease, until=self.now_ms() + LEASE_MS) for lease in leases]

    def renew(self, owner):
        self._may_trip("renew")
        return self.acquire(owner)

    def release(self, owner):
        self._may_trip("release")
        super().release(owner)

    def due(self, shard, until_ms, after, limit):
        self._may_trip("due")
        return super().due(shard, until_ms, after, limit)

    def look(self, cursors, until, limit, *, with_changes):
        self._may_trip("look")
        return super().look(cursors, until, limit, with_changes=with_changes)

    def withdrawal_requests(self, shards):
        self._may_trip("withdrawal_requests")
        return super().withdrawal_requests(shards)

    def wait_for_change(self, timeout_s):
        """
        Wait until another process may have written.
        """
        self._may_trip("wait_for_change")
        return super().wait_for_change(min(timeout_s, 0.02))


@pytest.mark.parametrize("call", ["acquire", "renew", "due", "look", "wait_for_change", "withdrawal_requests"])
def test_the_scheduler_continues(make, record, caplog, call):
    """
    If any call of the store fails twice, jobs that are set during the failures, and later jobs, still fire.

    The log has the traceback.
    """
    store = Tripping(call)
    scheduler = make(store, options=SchedulerOptions(horizon_s=0.2))
    failed = []
    scheduler.subscribe(lambda event: failed.append(event) if isinstance(event, StoreFailed) else None)
    scheduler.handler("h")(record)
    with caplog.at_level(logging.ERROR, "tickwheel.scheduler"):
        scheduler.start()
        for number in range(6):
            scheduler.set(f"k{number}", delay=0.3 * number, handler="h", payload=number)
        assert sorted(record.wait(6)) == list(range(6))
    assert store.trips == 2
    assert "negative integer" in failed[0].error
    assert any(line.exc_info for line in caplog.records)


class Picky(MemoryStore):
    """
    A store that rejects the acknowledgement of the job *unwanted*, and any acknowledgement with text outside ASCII.
    """

    def __init__(self, unwanted=""):
        super().__init__()
        self.unwanted = unwanted
        self.refusals = 0

    def apply(self, writes):
        """
        Apply *writes*, unless the store rejects one of them.
        """
        for each in writes:
            if isinstance(each, Settle) and (each.job.key == self.unwanted or not str(each).isascii()):
                self.refusals += 1
                what = "memory: a value cannot be stored"
                raise StoreError(what, "pass another")
        return super().apply(writes)


def test_an_acknowledgement_that_is_always_rejected(make, events):
    """
    If the store always rejects one acknowledgement, other acknowledgements are still written.

    This holds for acknowledgements in the same batch and in later batches.
    """
    store = Picky("unwanted")
    scheduler = make(store)
    told = events(scheduler)
    scheduler.handler("h")(print)
    scheduler.start()
    keys = ["unwanted", *map(str, range(20))]
    scheduler.set_many(SetRequest(key, delay=0, handler="h") for key in keys)
    for key in keys[1:]:
        told.of(JobSucceeded, key)
    scheduler.set("later", delay=0, handler="h")
    told.of(JobSucceeded, "later")
    assert store.refusals
    assert [job.key for job in scheduler.list().jobs] == ["unwanted"]
    store.unwanted = ""
    told.of(JobSucceeded, "unwanted")


def test_a_failure_that_lasts_is_logged(make, caplog, until):
    """
    If no hook is subscribed, a permanent failure of the store is logged once, however often the scheduler retries.
    """
    store = Picky("unwanted")
    scheduler = make(store)
    scheduler.handler("h")(print)
    scheduler.start()
    scheduler.set("unwanted", delay=0, handler="h")
    until(lambda: store.refusals > 2)
    store.unwanted = ""
    until(lambda: not scheduler.list().jobs)
    said = "settling firings failed, and will be tried again: memory: a value cannot be stored: pass another"
    assert [line.message for line in caplog.records] == [said]


def test_text_that_a_store_rejects(make, events):
    """
    If the store rejects the text of a handler's error or note, the text is stored in ASCII.
    """
    scheduler = make(Picky())
    told = events(scheduler)

    @scheduler.handler("h", retry=RetryPolicy(attempts=1))
    def handler(_payload, firing):
        firing.progress(0.5, "日")
        what = "日本"
        raise ValueError(what)

    scheduler.start()
    scheduler.set("k", delay=0, handler="h")
    told.of(JobDied, "k")
    assert scheduler.get("k").error == r"ValueError: \u65e5\u672c"
    (kept, *_) = scheduler.history("k")
    assert (kept.error, kept.note) == (r"ValueError: \u65e5\u672c", r"\u65e5")


def test_stop_closes(caplog):
    """
    If the store fails while a scheduler releases its leases, the scheduler is still stopped and closed.

    The scheduler reports the failure.
    """
    store = Tripping("release")
    scheduler = Scheduler(store).start()
    assert scheduler.stop() == []
    assert store.trips == 1
    assert "the store was not given back in order: file descriptor" in caplog.text
    assert "stopped" in repr(scheduler)


@pytest.fixture
def no_threads(monkeypatch):
    """
    Return a function that makes the first two starts of a thread with a given name fail, and a list of the failures.
    """
    refused = []

    def refuse(name):
        start = threading.Thread.start

        def scarce(thread):
            if thread.name.startswith(name) and len(refused) < 2:
                refused.append(thread.name)
                what = "can't start new thread"
                raise RuntimeError(what)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", scarce)
        return refused

    return refuse


@pytest.mark.parametrize("name", ["tickwheel-worker", "tickwheel-coroutines"])
def test_no_thread_to_spare(make, record, caplog, no_threads, name):
    """
    If the system has no thread for a job, this job and the next one run as soon as a thread can be started.
    """
    scheduler = make(MemoryStore())

    async def on_the_loop(payload):
        record(payload)

    scheduler.handler("h")(on_the_loop if name == "tickwheel-coroutines" else record)
    with caplog.at_level(logging.ERROR, "tickwheel.scheduler"):
        scheduler.start()
        refused = no_threads(name)
        scheduler.set("a", delay=0, handler="h", payload="a")
        scheduler.set("b", delay=0.5, handler="h", payload="b")
        assert sorted(record.wait(2)) == ["a", "b"]
    assert len(refused) == 2
    assert sum("starting" in line.message for line in caplog.records) == 2


def test_another_worker_cannot_be_started(make, record, no_threads):
    """
    If a worker cannot start another worker for a waiting job, it runs its own job, and then the waiting job itself.
    """
    scheduler = make(MemoryStore(), options=SchedulerOptions(workers=4))
    scheduler.handler("h")(record)
    scheduler.start()
    scheduler.set("first", delay=0, handler="h", payload=0)
    record.wait(1)
    refused = no_threads("tickwheel-worker")
    jobs = [SetRequest(f"k{number}", delay=0.2, handler="h", payload=number) for number in range(1, 9)]
    scheduler.set_many(jobs)
    assert sorted(record.wait(9)) == list(range(9))
    assert refused


def test_no_thread_for_the_pruner(make, monkeypatch, no_threads):
    """
    If the pruner gets no thread at first, it starts later.

    Otherwise the history would grow without limit.
    """
    monkeypatch.setattr(_records, "_EVERY_S", 0.01)
    store, has_pruned = MemoryStore(), threading.Event()
    monkeypatch.setattr(store, "prune", lambda *_: has_pruned.set())
    refused = no_threads("tickwheel-pruner")
    make(store).start()
    assert has_pruned.wait(60)
    assert len(refused) == 2


@pytest.mark.parametrize("name", ["tickwheel-writer-callers", "tickwheel-writer"])
def test_no_thread_for_a_second_writer(monkeypatch, until, name):
    """
    If one of several writers gets no thread, all writers end.

    So the next start does not run more writers than intended.
    """
    before, start, asked = set(threading.enumerate()), threading.Thread.start, []

    def scarce(thread):
        asked.append(thread.name)
        if asked.count(name) == 1 + (name == "tickwheel-writer"):
            what = "can't start new thread"
            raise RuntimeError(what)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", scarce)
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        store.open()
        store.abilities = replace(store.abilities, has_many_writers=name == "tickwheel-writer-callers")
    with pytest.raises(RuntimeError, match="new thread"):
        PartitionedWriter(SimpleNamespace(partitions=stores, partition_of=len), Runtime())
    assert len(asked) == 2
    until(lambda: set(threading.enumerate()) <= before)


def test_no_thread_for_a_request(service_url, no_threads):
    """
    If the thread of a service's client cannot start, the client raises the error.

    The client works as soon as a thread can be started.
    """
    refused = no_threads("tickwheel-http")
    client = Scheduler(service_url)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't start new thread"):
            client.set("k", delay=60, handler="h")
    assert client.set("k", delay=60, handler="h").outcome == "created"
    client.stop()
    assert len(refused) == 2


def test_no_thread_to_ask_the_owner(no_threads):
    """
    If the thread that asks the owner in another process cannot start, the caller gets the error.

    Each further call tries to start the thread again.
    """
    answers = queue.SimpleQueue()

    class Part:
        """
        A caller's part of a batch. It passes its result to the test.
        """

        jobs = statuses = ()

        def finish(self, result):
            answers.put(result)

    no_threads("tickwheel-withdrawals")
    requests = WithdrawalRequests(MemoryStore(), print, Runtime())
    for _ in range(2):
        requests.add(Part())
        assert "can't start new thread" in str(answers.get(timeout=20))
    requests.close()


def test_a_standby_continues(monkeypatch, caplog):
    """
    If the store raises an unexpected error, a standby tries again to become the owner.
    """
    monkeypatch.setattr(_standby, "_PAUSE_S", 0.01)
    turns, has_started = [], threading.Event()

    def start():
        turns.append(1)
        if len(turns) < 3:
            raise ZeroDivisionError
        has_started.set()

    _standby.Standby(Runtime()).begin(start, lambda: None)
    assert has_started.wait(60)
    assert [line.message for line in caplog.records] == [
        "this scheduler could not become the owner; it will try again"
    ] * 2


class Opening:
    """
    Opens connections to the file at *path*, but fails at the first attempt.
    """

    def __init__(self, path):
        self.path = path
        self.turns = 0
        self.has_answered = threading.Event()

    def __call__(self):
        self.turns += 1
        if self.turns == 1:
            what = "unable to open database file"
            raise sqlite3.OperationalError(what)
        connection = sqlite3.connect(self.path, check_same_thread=False)
        connection.set_trace_callback(lambda _: self.has_answered.set())
        return connection


def test_checkpoints_continue(tmp_path):
    """
    If the checkpoint of a SQLite file fails, it is tried again after the next writes.

    Otherwise the log would grow without limit.
    """
    opening = Opening(tmp_path / "jobs.db")
    checkpointer = _checkpointer.Checkpointer(opening)
    while not opening.has_answered.is_set():
        checkpointer.wrote(_checkpointer._WRITES)
        opening.has_answered.wait(0.01)
    checkpointer.close()
    assert opening.turns == 2


def test_later_transactions_are_still_followed(tmp_path):
    """
    If the thread that waits for the end of a transaction fails once, it still waits for the end of later transactions.
    """
    opening = Opening(tmp_path / "jobs.db")
    follower = Follower(opening, lambda: None)
    while not opening.has_answered.is_set():
        follower.follow(1)
        opening.has_answered.wait(0.01)
    follower.close()
    assert opening.turns == 2
