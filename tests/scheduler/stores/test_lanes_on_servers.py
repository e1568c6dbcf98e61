"""
One lane (the jobs of one handler or queue) with far more jobs than fit into memory, on stores with a server.

See also `tests/scheduler/test_lanes.py`.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel.scheduler import SchedulerOptions, SetRequest

HERD = 1_000
LANES = 10


@pytest.fixture(params=["postgres", "redis", "partitions"])
def server_url(request):
    """
    Return the URL of an empty store on a server, for each kind of server.
    """
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    partitions = "&partitions=3" if request.param == "partitions" else ""
    return request.getfixturevalue("redis_server").empty_url(partitions)


@pytest.mark.slow
def test_other_lanes_run_beside_a_crowded_lane(server_url, make, record, until):
    """
    Jobs of ten handlers run although a handler with a rate limit has many jobs due at the same time or earlier.

    The jobs of the ten handlers also run after a takeover.
    """
    made = []
    for turn in range(2):
        scheduler = make(server_url, options=SchedulerOptions(staged_max=200))
        scheduler.handler("crowd", rate=0.01)(print)
        for lane in range(LANES):
            scheduler.handler(f"h{lane}")(record)
        if turn == 0:
            scheduler.set_many([SetRequest(f"crowd/{n}", delay=0, handler="crowd") for n in range(HERD)])
        jobs = [
            SetRequest(f"{turn}/{lane}/{delay}", delay=delay, handler=f"h{lane}", payload=f"{turn}/{lane}/{delay}")
            for lane in range(LANES)
            for delay in (0, 0.2)
        ]
        made += [job.payload for job in jobs]
        scheduler.set_many(jobs[::2])
        scheduler.start()
        scheduler.set_many(jobs[1::2])
        assert sorted(record.wait(len(made))) == sorted(made)
        (lane,) = until(lambda s=scheduler: s.stats()["full_lanes"])
        assert (lane["lane"], lane["reason"]) == ("handler:crowd", "rate")
        scheduler.stop()


def test_many_queues_without_workers(server_url, make, record, until):
    """
    However many jobs wait in queues without workers, there is room in memory for a new handler's jobs.

    This holds even after a takeover. If a worker comes, it gets the jobs of its queue.
    """
    many = [SetRequest(f"{n}", delay=0, target="pull", handler=f"q{n}") for n in range(HERD)]
    wanted = [f"{{tag}}/{n}" for n in range(8)]  # in one partition: the order between partitions is undefined
    many += [SetRequest(key, delay=0, target="pull", handler="wanted") for key in wanted]
    for turn in range(2):
        scheduler = make(server_url, options=SchedulerOptions(staged_max=200))
        scheduler.handler("h")(record)
        if turn == 0:
            scheduler.set_many(many)
        scheduler.set(f"h/{turn}", delay=0, handler="h", payload=turn)
        scheduler.start()
        assert record.wait(turn + 1)[-1] == turn
        until(lambda s=scheduler: "pull" in [lane["lane"] for lane in s.stats()["full_lanes"]])
        got = []
        while len(got) < 4:
            got += scheduler.lease("wanted", limit=4 - len(got), wait=60)
        assert [lease.job.key for lease in got] == wanted[4 * turn : 4 * turn + 4]
        for lease in got:
            scheduler.ack(lease.fire_id)
        scheduler.stop()


def test_explained_by_another_node(server_url, make, until):
    """
    A process that does not fire jobs can explain why a job waits: it reads the reports of the node that fires.
    """
    owner, client = make(server_url), make(server_url)
    owner.handler("crowd", rate=0.01)(print)
    owner.start()
    client.set_many([SetRequest(f"crowd/{n}", delay=0, handler="crowd") for n in range(3)])

    def held():
        found = [client.explain(f"crowd/{n}") for n in range(3)]  # the order of their runs is undefined
        return [each for each in found if each is not None and each.reason == "rate"]

    found = until(lambda: len(held()) == 2 and held())
    assert {(each.lane, each.state.rate, each.state.waiting) for each in found} == {("handler:crowd", 0.01, 2)}
    assert {each.owner for each in found} == {owner.stats()["owner"]}


def test_takeovers_beside_a_full_lane(server_url, make, record, until):
    """
    If one handler has more due jobs than fit into memory, a second node still runs the jobs of other handlers.

    After the first node has stopped, the second node also runs all jobs of the first handler.
    """
    go_on, nodes = threading.Event(), []

    def crowd(payload):
        go_on.wait()
        record(payload)

    for _ in range(2):
        nodes.append(make(server_url, options=SchedulerOptions(staged_max=60)))
        nodes[-1].handler("crowd", concurrency=2, timeout=None)(crowd)
        nodes[-1].handler("other")(record)
    first, second = nodes
    numbers = range(HERD // 2)
    try:
        first.set_many([SetRequest(f"crowd/{n}", delay=0, handler="crowd", payload=n) for n in numbers])
        first.start()
        until(lambda: first.stats()["full_lanes"])
        second.start()
        until(lambda: second.stats()["full_lanes"])
        first.set_many([SetRequest(f"other/{n}", delay=0, handler="other", payload=f"other/{n}") for n in range(100)])
        assert set(record.wait(100)) == {f"other/{n}" for n in range(100)}
    finally:
        go_on.set()
    record.wait(200)
    first.stop()
    record.wait_for(lambda: set(numbers) <= set(record.items))
