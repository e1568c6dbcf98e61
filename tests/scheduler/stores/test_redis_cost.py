"""
The cost of the Redis store on the server, counted in commands and bytes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from tickwheel.jobs import model
from tickwheel.stores import Cursor, open_store
from tickwheel.testing.store_suite._history import record_of

FAR = 10**12


@pytest.fixture
def server(make_redis):
    return make_redis()


@pytest.fixture
def store(server):
    """
    Return an open store with fifty jobs due soon and five thousand far ahead.
    """
    store = open_store(server.url("?shards=1"))
    store.acquire("owner")
    store.apply([model.Set(model.Job(f"near {i}", 0, i)) for i in range(50)])
    for start in range(0, 5_000, 1_000):
        store.apply([model.Set(model.Job(f"far {start + i}", 0, FAR + i)) for i in range(1_000)])
    yield store
    store.close()


def look(store, limit):
    """
    Scan a store for changed jobs and for at most *limit* due jobs. The scan ends before the first far job.
    """
    return store.look([Cursor(0, 1, (0, 0), 0)], FAR, limit, with_changes=True)


def commands_of(server, call):
    """
    Return the number of executions of each command during *call*.
    """
    server.execute("CONFIG", "RESETSTAT")
    call()
    found = server.execute("INFO", "commandstats")
    own = ("evalsha", "script|load", "config|resetstat", "info", "hello")
    return {name.removeprefix("cmdstat_"): facts["calls"] for name, facts in found.items() if name[8:] not in own}


@pytest.mark.parametrize(
    ("call", "commands"),
    [
        (lambda store: store.due(0, 10**9, None, 20), {"zrange": 1, "hmget": 1}),
        (lambda store: store.due(0, 2**63, (FAR + 100, 0), 20), {"zrange": 1, "hmget": 1}),
        (lambda store: store.due(0, 10**9, None, 5_000), {"zrange": 1, "hmget": 1}),
        (lambda store: store.overdue([0], 10**9, 20), {"zrange": 1, "hmget": 1}),
        (lambda store: store.get("near 7"), {"hmget": 2, "time": 1, "get": 1}),
        (lambda store: store.count(), {"zcard": 3, "smembers": 2, "hlen": 1, "hget": 1}),
        (lambda store: store.page(model.JobQuery(limit=10)), {"zrange": 1, "hget": 10, "hmget": 2}),
        (lambda store: store.page(model.JobQuery(state=model.State.DEAD)), {"zrange": 1}),
        (lambda store: look(store, 64), {"get": 1, "hmget": 2, "zremrangebyscore": 1, "zrange": 3}),
        (lambda store: look(store, 20), {"get": 1, "hmget": 2, "zremrangebyscore": 1, "zrange": 2}),
    ],
)
def test_commands_of_a_scan(server, store, call, commands):
    """
    The commands of a scan depend on how many jobs it returns, not on how many exist.
    """
    assert commands_of(server, lambda: call(store)) == commands


def test_commands_of_a_batch(server, store):
    """
    Setting, claiming and settling a thousand jobs takes a few commands, not thousands.
    """
    (lease,) = store.renew("owner")
    writes = [model.Set(model.Job(f"job {i}", 0, i)) for i in range(1_000)]
    jobs = []
    counts = commands_of(server, lambda: jobs.extend(answer.job for answer in store.apply(writes)))
    assert sum(counts.values()) <= 20
    counts = commands_of(server, lambda: store.apply([model.Begin(job, lease.epoch) for job in jobs]))
    assert sum(counts.values()) <= 10
    counts = commands_of(server, lambda: store.apply([model.Settle(job, lease.epoch) for job in jobs]))
    assert sum(counts.values()) <= 10
    assert store.count()["pending"] == 5_050


def test_a_success_costs_no_command_on_the_history(server):
    """
    Settling a one-time job without a history record runs no command on the history.

    Each record costs five commands.
    """
    with closing(open_store(server.url("?shards=1"))) as store:
        (lease,) = store.acquire("owner")

        def of_settles(*, is_recorded):
            jobs = [answer.job for answer in store.apply([model.Set(model.Job(f"k{i}", 0, i)) for i in range(9)])]
            store.apply([model.Begin(job, lease.epoch) for job in jobs])
            records = [record_of(job, "succeeded") if is_recorded else None for job in jobs]
            writes = [model.Settle(job, lease.epoch, record=record) for job, record in zip(jobs, records, strict=True)]
            return Counter(commands_of(server, lambda: store.apply(writes)))

        plain = of_settles(is_recorded=False)
        assert plain.total() > 0
        assert server.execute("KEYS", "*history*") == []
        assert of_settles(is_recorded=True) == plain + Counter(hincrby=18, zadd=18, zincrby=9)
        assert server.execute("KEYS", "*history:k*") != []


def test_memory_of_a_job(server, store):
    """
    A pending job with 100 bytes of payload uses at most 560 bytes of the server's memory.

    All of this memory is freed when the job has ended.
    """

    def used():
        return server.execute("INFO", "memory")["used_memory_dataset"]

    before, keys = used(), [f"reminder/{i:012d}" for i in range(20_000)]
    for start in range(0, 20_000, 1_000):
        chunk = keys[start : start + 1_000]
        store.apply([model.Set(model.Job(key, 0, FAR + start, b"x" * 100, handler="mail")) for key in chunk])
    assert used() - before < 560 * 20_000
    for start in range(0, 20_000, 1_000):
        store.apply([model.Cancel(key) for key in keys[start : start + 1_000]])
    assert used() - before < 60 * 20_000  # Redis shrinks its hash tables later
