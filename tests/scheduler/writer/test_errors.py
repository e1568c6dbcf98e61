"""
Failed writes, and which callers are notified of each failure.
"""

from __future__ import annotations

import sys

import pytest
from writes import a_set, outcomes

from tickwheel.jobs.errors import StoreError, StoreFullError
from tickwheel.jobs.model import Cancel, Job, Outcome, Set

PATIENCE_S = 20.0


def a_bad_set():
    """
    Return a set request that every store refuses.
    """
    return Set(Job("bad", 0, 2**70))


def test_transient_error_is_tried_again(make, store):
    """
    After a transient error the commit is retried.

    Callers do not see the error.
    """
    writer = make()
    store.fail("apply", 3)
    assert writer.submit(a_set("key")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert writer.stats().retries == 3
    assert writer.stats().failures == 0


def test_transient_error_that_stays(make, store):
    """
    If a transient error outlasts the retries, all callers of the batch get the error.

    The writer then tries the next batch.
    """
    writer = make(retry_s=0.0)
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(5)]
        store.fail("apply", 2)
    errors = [future.exception(PATIENCE_S) for future in futures]
    assert {str(error) for error in errors} == {"apply failed: try again"}
    assert writer.submit(a_set("later")).result(PATIENCE_S).outcome is Outcome.CREATED


def test_full_store(make, store, monkeypatch):
    """
    If the store is full, setting a job fails at once.

    Other writes of the same commit succeed.
    """
    writer = make(retry_s=3600.0)
    assert writer.submit(a_set("old")).result(PATIENCE_S).outcome is Outcome.CREATED
    apply = store.apply

    def full(writes):
        if any(isinstance(write, Set) for write in writes):
            what = "no room"
            raise StoreFullError(what, "free some", is_transient=True)
        return apply(writes)

    monkeypatch.setattr(store, "apply", full)
    with store.held() as entered:
        writer.submit(Cancel("nobody"))
        assert entered()
        sets = [writer.submit(a_set(f"{i}")) for i in range(3)]
        cancel = writer.submit(Cancel("old"))
        sets += [writer.submit(a_set(f"more {i}")) for i in range(3)]
    assert cancel.result(PATIENCE_S).outcome is Outcome.CANCELLED
    assert {str(future.exception(PATIENCE_S)) for future in sets} == {"no room: free some"}


def test_a_commit_with_an_unknown_outcome_is_not_repeated(make, store):
    """
    A commit with an unknown outcome is not repeated.

    The scheduler is notified of it before the callers.
    """
    told = []
    writer = make(on_unknown=lambda: told.append("scheduler"))
    store.fail("apply", after=True, is_unknown=True)
    future = writer.submit(a_set("key"))
    future.add_done_callback(lambda _: told.append("caller"))
    error = future.exception(PATIENCE_S)
    assert error.is_unknown
    assert store.calls.count("apply") == 1
    assert store.get("key") is not None
    writer.close(PATIENCE_S)
    assert told == ["scheduler", "caller"]


def test_a_bad_write_fails_alone(make, store):
    """
    A write that cannot be stored fails alone.

    The other writes of its batch succeed.
    """
    writer = make()
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_bad_set() if i in {3, 11} else a_set(f"{i}")) for i in range(16)]
    for number, future in enumerate(futures):
        if number in {3, 11}:
            assert isinstance(future.exception(PATIENCE_S), StoreError)
        else:
            assert future.result(PATIENCE_S).outcome is Outcome.CREATED
    assert store.count()["pending"] == 15
    assert writer.stats().failures == 2


def test_bad_bulk_fails_as_one(make):
    writer = make()
    bulk = writer.submit_many([a_set("good"), a_bad_set()])
    assert isinstance(bulk.exception(PATIENCE_S), StoreError)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_callbacks_that_raise(make, caplog, error):
    """
    An exception in a callback is logged.

    It affects neither the writer's thread nor other callers.
    """

    def broken(*_):
        message = "my own fault"
        raise error(message)

    writer = make(on_commit=broken)
    answers = []
    writer.post([a_set("one")], broken)
    writer.post([a_set("two")], answers.append)
    assert writer.submit(a_set("three")).result(PATIENCE_S).outcome is Outcome.CREATED
    assert outcomes(answers[0]) == [Outcome.CREATED]
    assert {record.exc_info[1].args for record in caplog.records} == {("my own fault",)}


def test_store_that_exits(make, store, monkeypatch):
    """
    If the store raises SystemExit or another BaseException, the writes fail.

    The writer's thread continues.
    """
    writer, apply = make(), store.apply
    with monkeypatch.context() as patch:
        patch.setattr(store, "apply", lambda _: sys.exit("at the end of my tether"))
        error = writer.submit(a_set("lost")).exception(PATIENCE_S)
        assert error.is_unknown
        assert "raised SystemExit('at the end of my tether') while it wrote" in str(error)
    monkeypatch.setattr(store, "apply", apply)
    assert writer.submit(a_set("kept")).result(PATIENCE_S).outcome is Outcome.CREATED
