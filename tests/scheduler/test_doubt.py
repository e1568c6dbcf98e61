"""
The store's answer is lost, so the scheduler does not know whether the write took effect.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Begin, Set, Settle
from tickwheel.scheduler import Outcome, RetryPolicy, Snooze
from tickwheel.stores import MemoryStore, open_store
from tickwheel.testing import ManualClock
from tickwheel.testing.faulty_store import FaultyStore


@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.parametrize("how", ["retry", "snooze", "recur"])
def test_a_lost_answer_to_an_acknowledgement(make, record, how, is_written):
    """
    If the answer to an acknowledgement is lost, the next attempt or run still fires.

    This holds whether or not the acknowledgement was written.
    """
    store = FaultyStore(MemoryStore())
    scheduler = make(store)

    @scheduler.handler("h", retry=RetryPolicy(attempts=3, base_ms=50, jitter=0.0))
    def handle(_payload, firing):
        is_first = not record.items
        record((firing.job.generation, firing.attempt))
        if is_first:
            store.fail("apply", after=is_written, is_unknown=True)
            if how == "retry":
                raise LookupError
            return Snooze(0.05) if how == "snooze" else None
        return None

    scheduler.start()
    scheduler.set("k", handler="h", **({"every": 0.2} if how == "recur" else {"delay": 0.0}))
    record.wait(2)


def test_an_unexpected_error_of_the_store(make, record, until):
    """
    If the store raises an unexpected error after a commit, no job stays marked as running without an attempt.
    """
    store, go_on, tripped = MemoryStore(), threading.Event(), []
    apply = store.apply

    def trip(writes):
        if any(isinstance(write, Set) and write.job.key == "plug" for write in writes):
            assert go_on.wait(60.0)
        answers = apply(writes)
        if len(writes) > 1 and not tripped:
            tripped.append([type(write) for write in writes])
            raise LookupError("of a driver")
        return answers

    scheduler = make(store)
    scheduler.handler("h")(record)
    scheduler.start()
    scheduler.set("k", delay=0.3, handler="h", payload=1)
    with mock.patch.object(store, "apply", trip), ThreadPoolExecutor() as pool:
        plug = pool.submit(scheduler.set, "plug", delay=9, handler="h")
        until(lambda: (stats := scheduler.stats())["in_memory"] > stats["staged"])  # its claim is on the way
        other = pool.submit(scheduler.set, "other", delay=9, handler="h")
        until(lambda: scheduler.stats()["commit"]["waiting"])
        go_on.set()
        assert [future.result().outcome for future in (plug, other)] == [Outcome.CREATED, Outcome.REPLACED]
        assert tripped == [[Begin, Set]]
        assert record.wait(1) == [1]


@pytest.mark.parametrize("is_written", [True, False])
def test_a_cancel_while_a_claim_is_in_doubt(make, record, until, is_written):
    """
    If a job is cancelled after the answer to its claim was lost, the job is either cancelled or fires.
    """
    store = FaultyStore(MemoryStore())
    scheduler = make(store)
    scheduler.handler("h")(record)
    scheduler.start()
    claims = []
    real = store.apply

    def apply(writes):
        if isinstance(writes[0], Begin) and not claims:
            claims.append(writes)
            store.fail("apply", after=is_written, is_unknown=True)
        return real(writes)

    with mock.patch.object(store, "apply", apply):
        scheduler.set("k", delay=0.3, handler="h")
        until(lambda: claims)
        outcome = scheduler.cancel("k").outcome
        until(lambda: scheduler.get("k") is None)
    assert (outcome is Outcome.CANCELLED) is not bool(record.items)


CHANGES = {
    "move": lambda scheduler: scheduler.move("k", delay=9),
    "cancel": lambda scheduler: scheduler.cancel("k"),
    "set": lambda scheduler: scheduler.set("k", delay=9, handler="h", payload=2),
    "pause": lambda scheduler: scheduler.pause("k"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("rule", [{"delay": 1.0}, {"every": 1.0}], ids=["once", "recurring"])
def test_a_withdrawal_that_takes_effect_late(url, make, until, change, rule):
    """
    A change that withdraws a claimed job fails, and reaches the store only after the job was claimed again.

    The store refuses the late change, because the job can start at any time.
    """
    clock, fired, late = ManualClock(), [], []
    store = open_store(url)
    scheduler, apply = make(store, clock=clock), store.apply

    def lose(writes):
        if not late and any(getattr(write, "over", None) for write in writes):
            late.append(writes)
            raise LookupError("of a driver")
        return apply(writes)

    def is_claimed(due_at=0):
        job = scheduler.get("k")
        return job.state == "running" and job.due_at > due_at

    scheduler.handler("h")(fired.append)
    scheduler.start()
    due_at = scheduler.set("k", handler="h", payload=1, **rule).job.due_at
    clock.advance(0.99)
    until(is_claimed)
    with mock.patch.object(store, "apply", lose):
        with pytest.raises(LookupError, match="of a driver"):
            change(scheduler)
        until(lambda: is_claimed(due_at))
        assert [answer.outcome for answer in apply(late[0])] == [Outcome.TOO_LATE]
    assert fired == []
    clock.advance(0.02)
    until(lambda: fired)
    until(lambda: (job := scheduler.get("k")) is None or job.due_at == due_at + 1_000)
    assert fired == [1]


def test_a_release_that_takes_effect_late(url, make, until):
    """
    The release of a claimed job fails and is repeated, and the first one reaches the store during the next attempt.

    The store refuses the late release. Otherwise the job would be fired twice.
    """
    clock, go_on, fired, late = ManualClock(), threading.Event(), [], []
    store = open_store(url)
    scheduler, apply = make(store, clock=clock), store.apply

    def lose(writes):
        if not late and isinstance(writes[0], Settle):
            late.append(writes)
            raise StoreError("no answer", "try again", is_unknown=True)
        return apply(writes)

    @scheduler.handler("h")
    def handle(payload):
        fired.append(payload)
        assert go_on.wait(60.0)

    scheduler.start()
    scheduler.set("k", delay=1.0, handler="h", payload=1)
    clock.advance(0.99)
    until(lambda: scheduler.get("k").state == "running")
    with mock.patch.object(store, "apply", lose):
        scheduler.pause_scope("handler:h")
        until(lambda: late)
        until(lambda: clock.advance(0.1) or scheduler.get("k").state == "pending")
        scheduler.resume_scope("handler:h")
        until(lambda: clock.advance(0.1) or fired)
        assert [answer.outcome for answer in apply(late[0])] == [Outcome.WRONG_GENERATION]
    go_on.set()
    until(lambda: clock.advance(0.1) or scheduler.get("k") is None)
    assert fired == [1]
