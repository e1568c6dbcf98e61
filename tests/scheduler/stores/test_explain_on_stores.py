"""
Each store explains why a job has not run yet. The tests produce each reason in turn.

See also `tests/scheduler/test_explain.py`.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel.scheduler import RetryPolicy, Scheduler, SchedulerOptions, SetRequest, StoreError, WaitReason
from tickwheel.stores import make_store

HOUR = 3600
LATER = RetryPolicy(attempts=3, base_ms=HOUR * 1000, max_ms=HOUR * 1000)


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "partitions"])
def store(request, tmp_path):
    """
    Return an empty store of each kind in turn.

    If the store's leases can expire, they last one second.
    """
    if request.param == "memory":
        return make_store("memory://")
    if request.param == "sqlite":
        return make_store(f"sqlite:///{tmp_path / 'jobs.db'}")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        return make_store(f"{url}{'&' if '?' in url else '?'}lease_s=1")
    partitions = "&partitions=3" if request.param == "partitions" else ""
    return make_store(request.getfixturevalue("redis_server").empty_url(f"{partitions}&lease_s=1"))


def fails(_payload):
    message = "it broke"
    raise RuntimeError(message)


def down(*_args, **_kwargs):
    what = "the test took the store down"
    raise StoreError(what, "wait", is_transient=True)


def test_each_reason(store, make, go_on, until, monkeypatch):
    """
    Every store reports each reason why a job waits, for as long as the cause of that reason lasts.
    """
    abilities = store.abilities
    scheduler = make(store, options=SchedulerOptions(workers=1, running_max=16))
    begun = threading.Event()

    def why(key):
        found = scheduler.explain(key)
        assert found is None or (found.text and found.remedy and found.key == key)
        return None if found is None else found.reason

    @scheduler.handler("hangs", timeout=None)
    def hangs(_payload):
        begun.set()
        go_on.wait()

    @scheduler.handler("one", timeout=None, concurrency=1)
    def one(_payload):
        go_on.wait()

    scheduler.handler("fails", retry=LATER)(fails)
    scheduler.handler("dies", retry=RetryPolicy(attempts=1))(fails)
    scheduler.handler("slow", rate=0.001)(print)
    scheduler.handler("quiet")(print)
    scheduler.set("no owner", delay=0, handler="quiet")
    assert why("no owner") is WaitReason.NO_OWNER
    scheduler.start()
    until(lambda: why("no owner") is None)

    scheduler.pause_scope("handler:quiet")
    scheduler.set_many(
        [
            SetRequest("ahead", delay=HOUR, handler="hangs"),
            SetRequest("paused", delay=HOUR, handler="hangs"),
            SetRequest("scope", delay=0, handler="quiet"),
            SetRequest("unknown", delay=0, handler="nowhere"),
            SetRequest("no worker", delay=0, target="pull", handler="q"),
            SetRequest("again", delay=0, handler="fails"),
            SetRequest("dead", delay=0, handler="dies"),
            *(SetRequest(f"slow/{n}", delay=0, handler="slow") for n in range(3)),
        ]
    )
    scheduler.pause("paused")
    for key, reason in {
        "ahead": WaitReason.NOT_DUE,
        "paused": WaitReason.PAUSED,
        "scope": WaitReason.PAUSED,
        "unknown": WaitReason.NO_HANDLER,
        "no worker": WaitReason.NO_WORKER,
        "again": WaitReason.RETRY,
        "dead": WaitReason.DEAD,
    }.items():
        until(lambda key=key, reason=reason: why(key) is reason, lambda key=key: f"for {key}: {why(key)}")
    until(lambda: WaitReason.RATE in {why(f"slow/{n}") for n in range(3)})

    scheduler.set("hangs", delay=0, handler="hangs")
    assert begun.wait(60)
    assert why("hangs") is WaitReason.RUNNING
    scheduler.set_many([SetRequest(f"one/{n}", delay=0, handler="one") for n in range(2)])
    scheduler.set("hangs", delay=0, handler="hangs")
    assert why("hangs") is WaitReason.PREVIOUS_RUN
    until(lambda: WaitReason.CONCURRENCY in {why(f"one/{n}") for n in range(2)})
    scheduler.set_many([SetRequest(f"busy/{n}", delay=0, handler="hangs") for n in range(40)])
    until(lambda: WaitReason.BUSY in {why(f"busy/{n}") for n in range(40)})

    if abilities.has_many_owners:  # a process that fires nothing reads the reports of the firing process
        client = Scheduler(store.url)
        until(lambda: client.explain("hangs").reason in {WaitReason.OTHER_NODE, WaitReason.BUSY})
        client.close()

    with monkeypatch.context() as patched:
        patched.setattr(store, "get", down)
        assert why("ahead") is WaitReason.STORE_UNREACHABLE
    assert why("ahead") is WaitReason.NOT_DUE

    if abilities.has_many_owners:  # leases of the other stores do not expire
        with monkeypatch.context() as patched:
            patched.setattr(store, "renew", down)
            patched.setattr(store, "acquire", down)
            until(lambda: why("ahead") is WaitReason.LEASE_NOT_TRUSTED)
        until(lambda: why("ahead") is WaitReason.NOT_DUE)
    go_on.set()
    until(lambda: why("hangs") is None)
