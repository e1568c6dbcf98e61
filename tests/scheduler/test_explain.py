"""
The debug log, and `explain`.

`explain` gives the reason why a job has not run yet, the figures of the job's lane, and a remedy.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tickwheel.host.wait_log import WaitLog
from tickwheel.jobs.model import Redate
from tickwheel.scheduler import (
    AsyncScheduler,
    InvalidJobError,
    LaneState,
    RetryPolicy,
    Scheduler,
    SchedulerOptions,
    SetRequest,
    StoreError,
    WaitReason,
)
from tickwheel.stores import Abilities, MemoryStore
from tickwheel.testing import InlineScheduler, ManualClock

HOUR = 3600
LATER = RetryPolicy(attempts=3, base_ms=HOUR * 1000, max_ms=HOUR * 1000)


def hung(scheduler, name, go_on, **limits):
    """
    Register a handler *name* that waits for *go_on*, and return a list of the payloads with which it was called.
    """
    begun = []

    @scheduler.handler(name, timeout=None, **limits)
    def hang(payload):
        begun.append(payload)
        go_on.wait()

    return begun


def fails(_payload):
    message = "it broke"
    raise RuntimeError(message)


def reason(scheduler, key):
    """
    Return the reason why the job *key* does not run, and check its words, its lane and its remedy.
    """
    found = scheduler.explain(key)
    assert found.key == key
    assert found.text
    assert found.remedy
    assert found.lane or found.reason is WaitReason.STORE_UNREACHABLE
    return found.reason


def test_reasons_that_the_store_gives(url, make, until):
    """
    If a job is due later, waits for a retry, is paused, is dead or does not exist, the store alone gives the reason.
    """
    scheduler = make(url).start()
    scheduler.handler("fails", retry=LATER)(fails)
    scheduler.handler("dies", retry=RetryPolicy(attempts=1))(fails)
    assert scheduler.explain("none") is None
    due_at = scheduler.set("ahead", delay=HOUR, handler="fails").job.due_at
    assert reason(scheduler, "ahead") is WaitReason.NOT_DUE
    assert scheduler.explain("ahead").until == due_at
    scheduler.pause("ahead", note="until the audit")
    assert reason(scheduler, "ahead") is WaitReason.PAUSED
    assert "until the audit" in scheduler.explain("ahead").text
    scheduler.set("again", delay=0, handler="fails")
    until(lambda: reason(scheduler, "again") is WaitReason.RETRY)
    assert "attempt 1 of 3 failed (RuntimeError: it broke)" in scheduler.explain("again").text
    assert scheduler.explain("again").until == scheduler.get("again").due_at
    scheduler.set("dead", delay=0, handler="dies")
    until(lambda: reason(scheduler, "dead") is WaitReason.DEAD)
    assert "it broke" in scheduler.explain("dead").text
    assert scheduler.explain("dead").owner == scheduler.stats()["owner"]


@pytest.mark.parametrize("key", ["", "x" * 513, 7])
def test_a_bad_key(make, key):
    """
    An invalid key is refused.
    """
    with pytest.raises(InvalidJobError, match="key"):
        make("memory://").explain(key)


def test_no_process_fires(url, make):
    """
    Before any scheduler has started, the reason for a due job is that its shard has no owner.

    The reason for a future job is that it is not due yet. The text adds that no process fires the job's shard.
    """
    scheduler = make(url)
    scheduler.set_many([SetRequest("due", delay=0, handler="h"), SetRequest("ahead", delay=HOUR, handler="h")])
    assert reason(scheduler, "due") is WaitReason.NO_OWNER
    assert scheduler.explain("due").owner is None
    assert reason(scheduler, "ahead") is WaitReason.NOT_DUE
    assert "no process fires its shard" in scheduler.explain("ahead").text


@pytest.mark.parametrize("scope", ["handler:h", "handler", "*"])
@pytest.mark.parametrize("is_before", [True, False], ids=["before the start", "after it"])
def test_a_paused_scope(url, make, record, scope, is_before):
    """
    If a job waits because its handler, its target or everything is paused, the reason names the pause.

    This holds whether the job is due or not.
    """
    scheduler = make(url)
    scheduler.handler("h")(record)
    if is_before:
        scheduler.pause_scope(scope, note="repairs")
    scheduler.start()
    if not is_before:
        scheduler.pause_scope(scope, note="repairs")
    scheduler.set_many([SetRequest("due", delay=0, handler="h"), SetRequest("ahead", delay=HOUR, handler="h")])
    for key in ("due", "ahead"):
        assert reason(scheduler, key) is WaitReason.PAUSED
        assert repr(scope) in scheduler.explain(key).text
        assert "repairs" in scheduler.explain(key).text
    scheduler.resume_scope(scope)
    assert reason(scheduler, "ahead") is WaitReason.NOT_DUE
    record.wait(1)


def test_no_handler(url, make, record, until):
    """
    If no process has the handler of a job, the reason names the handler.
    """
    scheduler = make(url).start()
    scheduler.handler("other")(record)
    scheduler.set("k", delay=0, handler="mail")
    until(lambda: reason(scheduler, "k") is WaitReason.NO_HANDLER)
    until(lambda: scheduler.get("k").lacks_handler)
    assert reason(scheduler, "k") is WaitReason.NO_HANDLER
    assert "no handler 'mail' is registered here, but 'other': register it" in scheduler.explain("k").text


def test_a_payload_that_does_not_fit(make, until):
    """
    If a job is unroutable because its payload does not fit, the reason says what does not fit.
    """
    scheduler = make("memory://").start()

    @scheduler.task(name="count")
    def count(number: int):
        return number

    scheduler.set("k", delay=0, handler="count", payload={"number": "three"})
    until(lambda: scheduler.get("k").lacks_handler)
    assert reason(scheduler, "k") is WaitReason.NO_HANDLER
    assert "payload does not fit 'count'" in scheduler.explain("k").text


@pytest.mark.parametrize("jobs", [5, 500])
def test_a_limited_lane(url, make, go_on, until, jobs):
    """
    If a job waits for its handler's limit, the reason gives the limit, and how much of it is in use.

    This holds even if the lane has more jobs than fit into memory.
    """
    scheduler = make(url, options=SchedulerOptions(staged_max=100)).start()
    begun = hung(scheduler, "one", go_on, concurrency=1)
    scheduler.handler("slow", rate=0.01)(begun.append)
    for name in ("one", "slow"):
        scheduler.set_many([SetRequest(f"{name}/{n}", delay=0, handler=name, payload=n) for n in range(jobs)])
    until(lambda: len(begun) == 2)
    last = jobs - 1
    until(lambda: reason(scheduler, f"slow/{last}") is WaitReason.RATE)
    until(lambda: reason(scheduler, f"one/{last}") is WaitReason.CONCURRENCY)
    one, slow = (scheduler.explain(f"{name}/{last}") for name in ("one", "slow"))
    assert (one.lane, slow.lane) == ("handler:one", "handler:slow")
    assert (one.state.concurrency, one.state.running, one.state.rate) == (1, 1, None)
    assert (slow.state.rate, slow.state.concurrency) == (0.01, None)
    assert one.state.waiting == one.state.staged == min(jobs - 1, one.state.staged)
    assert one.state.oldest_due_at <= scheduler.get(f"one/{last}").due_at
    assert {one.state.is_full, slow.state.is_full} == {jobs > 100}
    assert "1 of 1 attempts are under way" in one.text
    assert reason(scheduler, "one/0") is WaitReason.RUNNING
    lanes = {lane["lane"]: lane for lane in scheduler.stats()["lanes"]}
    assert lanes["handler:one"]["reason"] == "concurrency"
    assert lanes["handler:slow"]["reason"] == "rate"
    until(lambda: scheduler.is_ready)


def test_no_worker(url, make, until):
    """
    If a queue has no worker, `explain` gives this as the reason why the jobs of the queue wait.
    """
    scheduler = make(url).start()
    scheduler.set("k", delay=0, target="pull", handler="q")
    until(lambda: reason(scheduler, "k") is WaitReason.NO_WORKER)
    assert scheduler.explain("k").lane == "pull:q"


def test_busy(url, make, go_on, until):
    """
    If running attempts occupy all workers, or all workers that their lane may use, `explain` gives this as the reason.
    """
    scheduler = make(url, options=SchedulerOptions(workers=1, running_max=4)).start()
    begun = hung(scheduler, "hangs", go_on)
    scheduler.set_many([SetRequest(f"k{n}", delay=0, handler="hangs", payload=n) for n in range(20)])
    until(lambda: len(begun) == 1)
    until(lambda: reason(scheduler, "k1") is WaitReason.BUSY)
    until(lambda: reason(scheduler, "k19") is WaitReason.BUSY)
    state = until(lambda: (state := scheduler.explain("k19").state).running + state.staged == 20 and state)
    assert (state.lane, state.reason) == ("handler:hangs", WaitReason.BUSY)


def test_the_previous_run(url, make, go_on, until):
    """
    If a job is set again during a run, `explain` says that the next run has to wait for the end of this run.
    """
    scheduler = make(url).start()
    begun = hung(scheduler, "hangs", go_on)
    scheduler.set("k", delay=0, handler="hangs", payload=1)
    until(lambda: begun)
    assert reason(scheduler, "k") is WaitReason.RUNNING
    scheduler.set("k", delay=0, handler="hangs", payload=2)
    assert reason(scheduler, "k") is WaitReason.PREVIOUS_RUN
    go_on.set()
    until(lambda: scheduler.explain("k") is None)
    assert begun == [1, 2]


class Troubled(MemoryStore):
    """
    A store that can refuse reads, or refuse the writes that correct due times.
    """

    lacks = ""

    def _check_up(self, call):
        if self.lacks == call:
            what = "the test took the store down"
            raise StoreError(what, "wait", is_transient=True)

    def get(self, key):
        self._check_up("get")
        return super().get(key)

    def apply(self, writes):
        """
        Apply *writes*, unless the store refuses to correct due times.
        """
        if any(isinstance(write, Redate) for write in writes):
            self._check_up("apply")
        return super().apply(writes)


class Leasing(Troubled):
    """
    A store whose leases expire, and which can refuse renewals.
    """

    abilities = Abilities(has_many_owners=True, first_tail=1_000_000)

    def acquire(self, owner):
        return self._ending(super().acquire(owner) if self._owner != owner else super().renew(owner))

    def renew(self, owner):
        """
        Renew the lease, unless the test has disabled renewals.
        """
        self._check_up("renew")
        return self._ending(super().renew(owner))

    def _ending(self, leases):
        return [replace(lease, until=self.now_ms() + 300) for lease in leases]


def test_a_store_that_does_not_answer(make):
    """
    If the store does not answer, `explain` gives this as the reason.

    Any other error of the store is raised.
    """
    store = Troubled()
    scheduler = make(store).start()
    scheduler.set("k", delay=HOUR, handler="h")
    store.lacks = "get"
    assert reason(scheduler, "k") is WaitReason.STORE_UNREACHABLE
    assert "the test took the store down" in scheduler.explain("k").text


def test_a_lease_that_is_not_trusted(make, until):
    """
    While a node cannot renew its leases, `explain` gives this as the reason for every job.
    """
    store = Leasing()
    scheduler = make(store).start()
    scheduler.handler("h")(print)
    scheduler.set("k", delay=HOUR, handler="h")
    assert reason(scheduler, "k") is WaitReason.NOT_DUE
    store.lacks = "renew"
    until(lambda: reason(scheduler, "k") is WaitReason.LEASE_NOT_TRUSTED)
    store.lacks = ""
    until(lambda: reason(scheduler, "k") is WaitReason.NOT_DUE)


def test_a_clock_that_was_set(make, until):
    """
    While due times are being corrected after a clock step, `explain` gives this as the reason.
    """
    clock = ManualClock(wall=1_700_000_000.0)
    store = Troubled(clock)
    scheduler = make(store, clock=clock).start()
    scheduler.handler("h")(print)
    scheduler.set("k", delay=HOUR, handler="h")
    store.lacks = "apply"
    clock.step_wall(-2 * HOUR)
    until(lambda: reason(scheduler, "k") is WaitReason.CLOCK_SET)
    store.lacks = ""
    until(lambda: reason(scheduler, "k") is WaitReason.NOT_DUE)


def test_at_a_moved_clock(make):
    """
    `explain` also works with an inline scheduler, whose clock the test moves.
    """
    clock = ManualClock(wall=1_700_000_000.0)
    scheduler = make(kind=InlineScheduler, clock=clock).start()
    scheduler.handler("h")(print)
    scheduler.set("k", delay=HOUR, handler="h")
    assert reason(scheduler, "k") is WaitReason.NOT_DUE
    clock.advance(HOUR)
    assert scheduler.explain("k") is None


def test_from_another_process(file_url, make, go_on, until):
    """
    If another process fires the jobs, the reason names that process.
    """
    owner = make(file_url).start()
    begun = hung(owner, "one", go_on, concurrency=1)
    owner.set_many([SetRequest(f"k{n}", delay=0, handler="one", payload=n) for n in range(2)])
    until(lambda: begun)
    client = Scheduler(file_url)
    found = client.explain("k1")
    assert (found.reason, found.owner) == (WaitReason.OTHER_NODE, owner.stats()["owner"])
    assert reason(client, "k0") is WaitReason.RUNNING
    client.close()


def test_asynchronously():
    """
    `AsyncScheduler.explain` returns the same explanation as `Scheduler.explain`.
    """

    async def ask():
        async with AsyncScheduler("memory://") as scheduler:
            await scheduler.set("k", delay=HOUR, handler="h")
            return await scheduler.explain("k"), await scheduler.explain("none")

    found, nothing = asyncio.run(ask())
    assert (found.reason, nothing) == (WaitReason.NOT_DUE, None)


def test_many_lanes(make, until):
    """
    `stats` lists at most 50 lanes, and first the lanes with waiting jobs.

    The figures of all other lanes are added up.
    """
    scheduler = make("memory://").start()
    scheduler.handler("slow", rate=0.01)(print)
    scheduler.set_many([SetRequest(f"ahead/{n}", delay=5, handler=f"h{n}") for n in range(80)])
    for n in range(80):
        scheduler.handler(f"h{n}")(print)
    scheduler.set_many([SetRequest(f"slow/{n}", delay=0, handler="slow") for n in range(3)])
    until(lambda: any(lane["reason"] == "rate" and lane["waiting"] == 2 for lane in scheduler.stats()["lanes"]))
    until(lambda: scheduler.stats()["staged"] == 82)
    lanes = scheduler.stats()["lanes"]
    assert len(lanes) == 51
    assert lanes[0]["lane"] == "handler:slow"
    assert lanes[-1]["lane"] == "(others)"
    assert sum(lane["staged"] for lane in lanes) == 82
    assert LaneState(**lanes[-1]) == LaneState("(others)", staged=31)


def test_the_debug_lines(make, go_on, until, caplog):
    """
    The debug log has a line with the lane's name for each reason why a lane waits.

    For each lane and reason there is at most one line a second.
    """
    caplog.set_level(logging.DEBUG, "tickwheel.scheduler")
    scheduler = make("memory://", options=SchedulerOptions(staged_max=100)).start()
    begun = hung(scheduler, "one", go_on, concurrency=1)
    scheduler.handler("slow", rate=0.01)(begun.append)
    scheduler.handler("paused")(begun.append)
    scheduler.pause_scope("handler:paused")
    for name in ("one", "slow", "paused", "unknown"):
        scheduler.set_many([SetRequest(f"{name}/{n}", delay=0, handler=name, payload=n) for n in range(300)])
    wanted = {
        ("handler:one", "concurrency"),
        ("handler:slow", "rate"),
        ("handler:paused", "paused"),
        ("handler:unknown", "no_handler"),
    }

    def told():
        lines = [each for each in caplog.records if each.levelno == logging.DEBUG and "waits: " in each.getMessage()]
        return [(each.args[0].split("'")[1], str(each.args[1])) for each in lines if "'" in each.args[0]]

    until(lambda: wanted <= set(told()))


def test_one_line_a_second(caplog):
    """
    For each lane and each reason why it waits, the debug log gets at most one line a second.

    If the log level is above DEBUG, there is no such line.
    """
    now = 100.0
    log = WaitLog(SimpleNamespace(monotonic=lambda: now, lock=threading.Lock))
    caplog.set_level(logging.DEBUG, "tickwheel.scheduler")
    for now in (100.0, 100.5, 100.999, 101.0, 101.5, 102.0):
        log.tell("handler:a", WaitReason.RATE, f"at {now}")
        log.tell("handler:a", WaitReason.BUSY)
        log.tell("handler:b", WaitReason.RATE)
        log.tell("*", WaitReason.STORE_UNREACHABLE)
    lines = [each.getMessage() for each in caplog.records]
    assert len(lines) == 3 * 4
    assert lines[:4] == [
        "lane 'handler:a' waits: rate (at 100.0)",
        "lane 'handler:a' waits: busy",
        "lane 'handler:b' waits: rate",
        "every lane waits: store_unreachable",
    ]
    caplog.set_level(logging.INFO, "tickwheel.scheduler")
    now = 200.0
    log.tell("handler:a", WaitReason.RATE)
    assert len(caplog.records) == 12


def test_very_many_lanes_cost_little(make, until, monkeypatch):
    """
    Figures of lanes are computed only for the lanes that `stats` lists, and for the lane of a job that is explained.
    """
    scheduler = make("memory://").start()
    scheduler.set_many(SetRequest(f"k{n}", delay=0, target="pull", handler=f"q{n}") for n in range(400))
    until(lambda: scheduler.stats()["lanes"][-1]["waiting"] == 350)
    made = []
    init = LaneState.__init__
    monkeypatch.setattr(LaneState, "__init__", lambda *args, **fields: (made.append(1), init(*args, **fields))[0])
    lanes = scheduler.stats()["lanes"]
    assert [len(lanes), lanes[-1]["lane"], lanes[-1]["reason"]] == [51, "(others)", "no_worker"]
    assert len(made) < 200
    made.clear()
    assert reason(scheduler, "k399") is WaitReason.NO_WORKER
    assert len(made) < 10
