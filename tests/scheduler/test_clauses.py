"""
Clauses of the promise (docs/promise.md) that the process, not the store, has to keep.

They are tested on each of the four stores.
"""

from __future__ import annotations

import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwheel.jobs.errors import StoreError
from tickwheel.scheduler import RetryPolicy, Scheduler, SetRequest
from tickwheel.stores import open_store

FAR_S, PATIENCE_S = 86_400.0, 60.0


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return request.getfixturevalue("redis_server").empty_url()


@pytest.fixture
def scheduler(url):
    """
    Return a scheduler that is not started.

    The fixture stops it at the end.
    """
    with Scheduler(url) as scheduler:
        yield scheduler


def test_2_a_due_job_never_fires_inside_its_set(scheduler, record):
    """
    A job that is already due when it is set fires in another thread, and not inside the call of `set`.
    """
    scheduler.handler("h")(lambda name: record((name, threading.get_ident())))
    scheduler.start()
    scheduler.set("past", at=time.time() - 3_600, handler="h", payload="past")
    assert record.wait(1)[0][0] == "past"
    scheduler.set("now", delay=0, handler="h", payload="now")
    assert [name for name, _ in record.wait(2)] == ["past", "now"]
    assert threading.get_ident() not in {thread for _, thread in record.items}


def test_5_anything_goes_in_a_handler(scheduler, record):
    """
    A handler may set, move, cancel and pause jobs, and may raise any exception.

    All other due jobs still run.
    """

    @scheduler.handler("h")
    def handle(number):
        record(number)
        if number == 0:
            scheduler.set("new", delay=0, handler="h", payload=100)
            scheduler.cancel("far")
            scheduler.move("moved", delay=0)
            scheduler.cancel("key-0")
        if number == 1:
            raise SystemExit
        if number == 2:
            raise KeyboardInterrupt

    scheduler.set("far", delay=FAR_S, handler="h", payload=-1)
    scheduler.set("moved", delay=FAR_S, handler="h", payload=50)
    scheduler.set_many(
        SetRequest(f"key-{n}", delay=0, handler="h", payload=n, retry=RetryPolicy(attempts=1)) for n in range(8)
    )
    scheduler.start()
    record.wait_for(lambda: {*range(8), 50, 100} <= set(record.items))
    assert scheduler.get("far") is None
    assert -1 not in record.items


def test_7_an_earlier_job_fires_first(scheduler, record):
    """
    If a job that is due now is set while a node waits for a job that is due tomorrow, only the new job fires.
    """
    scheduler.handler("h")(record)
    scheduler.set("far", delay=FAR_S, handler="h", payload="far")
    scheduler.start()
    scheduler.set("near", delay=0, handler="h", payload="near")
    assert record.wait(1) == ["near"]
    assert scheduler.get("far").attempt == 0
    assert record.items == ["near"]


def test_8_a_cancel_frees_the_job(scheduler):
    """
    A cancelled job is removed at once from the store, and from the memory of the node that had staged it.
    """
    scheduler.handler("h")(print)
    scheduler.start()
    jobs = [SetRequest(f"key-{n}", delay=20.0 + n, handler="h", payload="x" * 100) for n in range(50)]
    scheduler.set_many(jobs)
    assert scheduler.stats()["pending"] == 50
    answers = scheduler.cancel_many([job.key for job in jobs])
    assert {answer.outcome.value for answer in answers} == {"cancelled"}
    stats = scheduler.stats()
    assert (stats["pending"], stats["staged"]) == (0, 0)


def test_10a_each_caller_gets_a_separate_exception(url):
    """
    If one error of a store affects several callers, each caller gets a separate exception object.

    A handler does not see the context variables of the caller that set its job.
    """
    store = open_store(url)
    scheduler = Scheduler(store)
    error, contexts, done = StoreError("broken", "mend it"), [], threading.Event()
    variable = contextvars.ContextVar("variable", default="none")

    @scheduler.handler("h")
    def handle(_):
        contexts.append(variable.get())
        done.set()

    variable.set("the caller's")
    with scheduler:
        scheduler.start()
        scheduler.set("key", delay=0, handler="h")
        assert done.wait(PATIENCE_S)
        assert contexts == ["none"]
        apply = store.apply

        def broken(writes):
            if any(type(write).__name__ == "Set" for write in writes):
                raise error
            return apply(writes)

        store.apply = broken
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(scheduler.set, f"key-{n}", delay=1, handler="h") for n in range(4)]
            errors = [future.exception(PATIENCE_S) for future in asked]
        assert [str(each) for each in errors] == [str(error)] * 4
        assert len({id(each) for each in [*errors, error]}) == 5
