"""
The store's answer is lost, so the scheduler does not know whether the write took effect.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from tickwheel.jobs.model import Begin, Set
from tickwheel.scheduler import Outcome, RetryPolicy, Snooze
from tickwheel.stores import MemoryStore
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
