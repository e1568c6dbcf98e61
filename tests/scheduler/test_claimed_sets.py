"""
If a job is due when it is set, the owner claims it in the same commit.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Claim, Claimed, Job, Set, Settle
from tickwheel.observe.events import JobFired, JobSet
from tickwheel.scheduler import Outcome, SchedulerOptions, SetRequest
from tickwheel.stores import MemoryStore, make_store
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.faulty_store import FaultyStore

DUE = {"delay": 0.0, "handler": "h"}


class WatchedStore(FaultyStore):
    """
    A store that records the writes and the answers of its commits.
    """

    def __init__(self, store):
        super().__init__(store)
        self.commits = []

    def __getattr__(self, name):
        call = super().__getattr__(name)
        if name != "apply":
            return call

        def apply(writes):
            answers = call(writes)
            self.commits.append((list(writes), list(answers)))
            return answers

        return apply

    def claimed(self):
        """
        Return the keys of jobs that were claimed in the commits that set them.
        """
        return [
            writes[index].job.key
            for writes, answers in list(self.commits)
            for answer in answers
            if isinstance(answer, Claimed)
            for index in answer.indexes
        ]

    def kinds(self):
        return [{type(write) for write in writes} for writes, _ in list(self.commits)]


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return WatchedStore(MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "jobs.db"))


@pytest.fixture
def start(make, store, until, engines):
    """
    Return a function that starts a scheduler with a handler "h".

    The function waits until the scheduler has read the store.
    """

    def started(handle, **options):
        limits = {name: options.pop(name) for name in ("rate", "concurrency") if name in options}
        scheduler = make(store, options=SchedulerOptions(**options))
        scheduler.handler("h", **limits)(handle)
        scheduler.start()
        until(engines[-1]._prefetchers[0].claims_under)
        return scheduler

    return started


@pytest.fixture
def busy(start, record, go_on):
    """
    Return a scheduler whose only worker is busy until `go_on` is set.
    """

    def handle(payload):
        record(payload)
        assert go_on.wait(60)

    scheduler = start(handle, workers=1)
    scheduler.set("first", payload="first", **DUE)
    record.wait(1)
    return scheduler


def test_one_commit_sets_and_begins(start, store, record, until, engines):
    """
    Jobs that are due when they are set need no separate commit for their claim.

    Each fires once, in order.
    """
    scheduler = start(record, workers=1)
    scheduler.set_many([SetRequest(f"{n}", payload=n, **DUE) for n in range(300)])
    assert record.wait(300) == list(range(300))
    until(lambda: scheduler.stats()["succeeded"] == 300)
    assert store.claimed() == [f"{n}" for n in range(300)]
    assert {kind for kinds in store.kinds() for kind in kinds} == {Set, Claim, Settle}
    assert scheduler.stats()["running"] == scheduler.stats()["pending"] == 0
    engines[-1].staged.check()


def test_the_set_is_reported_before_the_firing(start, store, record):
    """
    Hooks get the event of the new job before the event of its firing.

    The answer to the caller shows a pending job.
    """
    scheduler = start(print)
    scheduler.subscribe(record)
    answer = scheduler.set("k", **DUE)
    assert (answer.outcome, answer.job.state, answer.job.attempt) == (Outcome.CREATED, "pending", 0)
    record.of(JobFired)
    assert [type(event) for event in record.items].index(JobSet) < [type(e) for e in record.items].index(JobFired)
    assert store.claimed() == ["k"]


@pytest.mark.parametrize("verb", ["cancel", "move", "set"])
def test_withdrawn_before_its_start(busy, store, record, go_on, verb):
    """
    A claimed job that waits for a worker can be cancelled, moved and replaced.

    A cancelled job does not fire, a moved job fires later, and a replaced job has the new payload.
    """
    busy.set("k", payload="old", **DUE)
    assert store.claimed() == ["first", "k"]
    change = {
        "cancel": lambda: busy.cancel("k").outcome,
        "move": lambda: busy.move("k", delay=0.05).outcome,
        "set": lambda: busy.set("k", payload="new", **DUE).outcome,
    }[verb]
    assert change() is {"cancel": Outcome.CANCELLED, "move": Outcome.MOVED, "set": Outcome.REPLACED}[verb]
    busy.set("last", payload="last", **DUE)
    go_on.set()
    record.wait_for(lambda: "last" in record.items and ("old" if verb == "move" else "new") in (*record.items, "new"))
    expected = {"cancel": [], "move": ["old"], "set": ["new"]}[verb]
    record.wait_for(lambda: len(record.items) >= 2 + len(expected))
    assert sorted(set(record.items) - {"first", "last"}) == expected


def test_too_late_after_its_start(busy):
    """
    A claimed job that has started can be neither cancelled nor moved.
    """
    assert busy.cancel("first").outcome is Outcome.TOO_LATE
    assert busy.move("first", delay=9).outcome is Outcome.TOO_LATE


def test_cancels_race_with_starts(start, store, record, until, engines):
    """
    If many claimed jobs are cancelled while they start, each job either runs or is cancelled.
    """
    scheduler = start(record, workers=4)
    answers = {}
    with ThreadPoolExecutor(2) as pool:
        for turn in range(20):
            keys = [f"{turn} {n}" for n in range(20)]
            pool.submit(scheduler.set_many, [SetRequest(key, payload=key, **DUE) for key in keys])
            answers |= {key: pool.submit(scheduler.cancel, key) for key in keys}
    outcomes = {key: answer.result().outcome for key, answer in answers.items()}
    until(lambda: scheduler.stats()["pending"] == scheduler.stats()["running"] == 0)
    until(lambda: engines[-1].staged.busy == 0)
    cancelled = {key for key, outcome in outcomes.items() if outcome is Outcome.CANCELLED}
    assert sorted(record.items) == sorted(answers.keys() - cancelled)
    assert store.claimed()


def test_a_set_and_a_cancel_in_one_commit(start, store, record, until, engines):
    """
    A job that is set and cancelled in one commit does not start.
    """
    scheduler = start(record)
    with ThreadPoolExecutor() as pool, store.held() as entered:
        plug = pool.submit(scheduler.set, "plug", delay=90, handler="h")
        assert entered()
        client, writer = scheduler._core.client, scheduler._core.client.opened()
        done = [pool.submit(scheduler.set, "k", **DUE)]
        until(lambda: writer.waiting == 1)
        done.append(pool.submit(scheduler.cancel, "k"))
        until(lambda: writer.waiting == 2)
    assert [each.result().outcome for each in (plug, *done)] == ["created", "created", "cancelled"]
    assert store.claimed() == []
    assert client.get("k") is None
    engines[-1].staged.check()


def test_a_paused_scope(start, store, record):
    """
    A job of a paused handler is not claimed.

    After the resume it fires with its first attempt.
    """
    scheduler = start(lambda _, firing: record(firing.attempt))
    scheduler.pause_scope("handler:h")
    scheduler.set("k", **DUE)
    assert store.claimed() == []
    assert scheduler.get("k").attempt == 0
    scheduler.resume_scope("handler:h")
    assert record.wait(1) == [1]


def test_a_scope_that_is_paused_during_the_commit(start, store, record, until):
    """
    If the handler of a claimed job is paused during the commit, the job does not start and gets its attempt back.
    """
    scheduler = start(record)
    with ThreadPoolExecutor() as pool, store.held() as entered:
        asked = pool.submit(scheduler.set, "k", **DUE)
        assert entered()
        scheduler.pause_scope("handler:h")
    assert asked.result().outcome is Outcome.CREATED
    assert store.claimed() == ["k"]
    until(lambda: scheduler.get("k").attempt == 0 and scheduler.get("k").pause is not None)
    assert record.items == []


def test_a_limited_rate(start, store, record):
    """
    A job with a rate limit is not claimed in the commit that sets it, but in a later commit.

    The job has to wait for its turn.
    """
    scheduler = start(record, rate=1_000)
    scheduler.set_many([SetRequest(f"{n}", payload=n, **DUE) for n in range(5)])
    assert sorted(record.wait(5)) == list(range(5))
    assert store.claimed() == []


def test_a_limited_number(start, store, record, go_on, until):
    """
    If due jobs are set, no more of them are claimed than their handler may run at once.

    The other jobs are claimed when earlier jobs have ended.
    """

    def handle(payload):
        record(payload)
        assert go_on.wait(60)

    scheduler = start(handle, concurrency=2)
    scheduler.set_many([SetRequest(f"{n}", payload=n, **DUE) for n in range(5)])
    assert store.claimed() == ["0", "1"]
    assert sorted(record.wait(2)) == [0, 1]
    scheduler.set("5", payload=5, **DUE)  # other jobs wait for this handler
    assert store.claimed() == ["0", "1"]
    go_on.set()
    assert sorted(record.wait(6)) == list(range(6))
    until(lambda: scheduler.stats()["succeeded"] == 6)


def test_the_scheduler_may_run_few(start, store, record):
    """
    If due jobs are set, no more of them are claimed than the scheduler may run at once.
    """
    scheduler = start(record, running_max=8)
    scheduler.set_many([SetRequest(f"{n}", payload=n, **DUE) for n in range(50)])
    assert sorted(record.wait(50)) == list(range(50))
    assert len(store.claimed()) <= 10


@pytest.mark.parametrize("is_written", [True, False])
def test_a_lost_answer(start, store, record, until, is_written, engines):  # noqa: PLR0917  fixtures
    """
    If a commit takes effect, but its answer is lost, the jobs in the commit fire.

    If the commit does not take effect, their keys stay free.
    """
    scheduler = start(lambda payload, firing: record((payload, firing.attempt)))
    store.fail("apply", after=is_written, is_unknown=True)
    with pytest.raises(StoreError):
        scheduler.set_many([SetRequest(f"{n}", payload=n, **DUE) for n in range(3)])
    if is_written:
        assert sorted(record.wait(3)) == [(n, 1) for n in range(3)]
    until(lambda: engines[-1].staged.busy == 0)
    scheduler.set_many([SetRequest(f"{n}", payload=n + 10, **DUE) for n in range(3)])
    record.wait_for(lambda: sum(payload >= 10 for payload, _ in record.items) == 3)
    assert len(record.items) == (6 if is_written else 3)
    engines[-1].staged.check()


def test_a_lost_answer_at_a_stop(start, store, record):
    """
    A stop does not wait for jobs if the answer to the commit that set them was lost.

    The next owner fires these jobs.
    """
    scheduler = start(record)
    store.fail("get_many", 1_000)
    store.fail("apply", after=True, is_unknown=True)
    with pytest.raises(StoreError):
        scheduler.set("k", **DUE)
    assert scheduler.stop(20) == []
    assert record.items == []


def test_a_refused_commit(start, store, record, until, engines):
    """
    If the store rejects a commit that sets and claims jobs, these jobs do not count as running.

    After a transient error the commit is tried again.
    """
    scheduler = start(record, running_max=2)
    for _ in range(3):
        store.fail("apply", is_transient=False)
        with pytest.raises(StoreError):
            scheduler.set("k", **DUE)
    assert engines[-1].staged.busy == 0
    store.fail("apply", 2)
    scheduler.set("k", payload=1, **DUE)
    assert record.wait(1) == [1]
    until(lambda: engines[-1].staged.busy == 0)
    assert store.claimed() == ["k"]


def test_an_error_after_the_commit(start, record, monkeypatch, engines):
    """
    If code of tickwheel raises an error after the commit that sets and claims jobs, each of these jobs fires once.
    """
    scheduler = start(record)

    def broken(*_):
        monkeypatch.undo()
        raise LookupError

    monkeypatch.setattr(engines[-1], "note_relative", broken)
    scheduler.set("k", payload=1, **DUE)
    assert record.wait(1) == [1]
    scheduler.set("last", payload=2, **DUE)
    assert record.wait(2) == [1, 2]


def test_a_key_that_still_runs(start, store, record, go_on, until, engines):  # noqa: PLR0917  fixtures
    """
    A new job does not start while an earlier run of its key lasts, for example a run of a cancelled series.
    """

    def handle(payload):
        record(payload)
        assert payload == "new" or go_on.wait(60)

    scheduler = start(handle)
    scheduler.set("k", every=60, delay=0.0, handler="h", payload="old")
    record.wait(1)
    assert scheduler.cancel("k").outcome is Outcome.CANCELLED
    assert scheduler.set("k", payload="new", **DUE).outcome is Outcome.CREATED
    assert store.claimed() == []
    assert record.items == ["old"]
    go_on.set()
    assert record.wait(2) == ["old", "new"]
    until(lambda: engines[-1].staged.busy == 0)


def test_older_jobs_come_first(make, store, record, until, monkeypatch):
    """
    While the store has older due jobs that are not in memory, a new job is not claimed in the commit that sets it.
    """
    store.open()
    first = store.now_ms() - 10_000
    store.apply([Set(Job(f"{n}", 0, first + n, f"{n}".encode(), handler="h")) for n in range(5)])
    look, looks, go_on = store.look, [], threading.Event()

    def held(*args, **kwargs):
        looks.append(args)
        assert go_on.wait(60)
        return look(*args, **kwargs)

    monkeypatch.setattr(store, "look", held, raising=False)
    scheduler = make(store)
    scheduler.handler("h")(record)
    scheduler.start()
    until(lambda: looks)
    scheduler.set("new", payload="new", **DUE)
    assert store.claimed() == []
    go_on.set()
    record.wait(6)


KILLED = """
import os, signal, sys
from tickwheel.scheduler import Scheduler, SetRequest
from tickwheel.jobs.model import Claimed
from tickwheel.stores import make_store

store = make_store(sys.argv[1])
apply = store.apply

def killed(writes):
    answers = apply(writes)
    if isinstance(answers[-1], Claimed) and len(answers[-1].indexes) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return answers

store.apply = killed
scheduler = Scheduler(store)
scheduler.handler("h")(lambda payload: print("ran", payload, flush=True))
scheduler.start()
while not scheduler._core.engine._prefetchers[0].claims_under():
    pass
scheduler.set_many([SetRequest(str(n), payload=n, delay=0.0, handler="h") for n in range(20)])
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a POSIX signal")
def test_killed_between_commit_and_start(make, record, tmp_path):
    """
    If the process is killed between the commit that claims a job and the start of the job, the job is not lost.

    The claimed attempt is counted once.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    done = subprocess.run([sys.executable, "-c", KILLED, url], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b""), done.stderr
    store = make_store(url)
    store.open()
    assert store.count() == {"pending": 0, "running": 20, "dead": 0}
    store.close()
    scheduler = make(url)
    scheduler.handler("h")(lambda payload, firing: record((payload, firing.attempt)))
    scheduler.start()
    assert sorted(record.wait(20)) == [(n, 2) for n in range(20)]


def test_many_callers(start, store, record, until, engines):
    """
    If many callers set jobs at once, each job fires once.

    Most jobs are claimed in the commit that sets them.
    """
    scheduler = start(record)

    def work(name):
        for n in range(50):
            scheduler.set(f"{name} {n}", payload=f"{name} {n}", **DUE)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record.wait(200)
    until(lambda: engines[-1].staged.busy == 0)
    assert sorted(record.items) == sorted(f"{name} {n}" for name in range(4) for n in range(50))
    assert len(store.claimed()) > 100
    engines[-1].staged.check()
