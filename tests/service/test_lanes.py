"""
The lanes (handlers, queues and receivers), with figures that are added up over all nodes.

The tests also cover pauses of lanes, and jobs that no node can run.
"""

from __future__ import annotations

import asyncio

import pytest

from tickwheel.jobs.minutes import BUCKETS, MINUTE_MS, LaneMinute, Minute
from tickwheel.jobs.model import Pause
from tickwheel.stores import Node

service_lanes = pytest.importorskip("tickwheel.service.lanes", reason="Starlette is not installed")


def state(lane, **fields):
    idle = {"reason": None, "staged": 0, "waiting": 0, "running": 0, "oldest_due_at": None, "is_full": False}
    return {"lane": lane, **idle, "concurrency": None, "rate": None, **fields}


def rows(*reports, minutes=(), aside=(), pauses=(), due=None):
    """
    Return the rows that the service computes from the *reports* of the nodes, by the name of the lane.
    """
    nodes = [Node(f"node {number}", figures=report) for number, report in enumerate(reports)]
    return by_name(nodes, minutes, aside, pauses, due or {})


def by_name(nodes, minutes=(), aside=(), pauses=(), due=None, *, now=1_000_000):
    """
    Return the rows that the service computes from *nodes*, by the name of the lane.
    """
    return {row.lane: row for row in service_lanes.rows_of(nodes, minutes, aside, pauses, due or {}, now=now)}


def test_nodes_are_added_up():
    """
    The row of a lane has the sums of waiting jobs, running jobs, limits and nodes, and the earliest due time.
    """
    mail = {"waiting": 3, "running": 2, "concurrency": 5, "reason": "concurrency", "oldest_due_at": 9_000}
    found = rows(
        {"lanes": [state("handler:mail", **mail)], "handlers": ["mail", "idle"]},
        {"lanes": [state("handler:mail", **mail | {"oldest_due_at": 4_000, "is_full": True})], "handlers": ["mail"]},
        {},
        None,
    )
    row = found["handler:mail"]
    assert (row.waiting, row.running, row.limit, row.nodes, row.is_full) == (6, 4, 10, 2, True)
    assert (row.oldest_due_at.timestamp(), row.reason, row.is_stuck, row.workers) == (4, "concurrency", False, None)
    assert (found["handler:idle"].nodes, found["handler:idle"].waiting, found["handler:idle"].fired) == (1, 0, None)


def test_a_dead_node():
    """
    The last report of a dead node is ignored, because other nodes have taken over its jobs.
    """
    report = {"lanes": [state("handler:mail", waiting=3, running=2, reason="busy")], "handlers": ["mail"]}
    nodes = [Node("dead", 5_000, figures=report), Node("alive", 7_000, figures=report), Node("only", figures=report)]
    for now, number in ((5_000, 3), (5_001, 2), (7_001, 1)):
        row = by_name(nodes, now=now)["handler:mail"]
        assert (row.waiting, row.running, row.nodes) == (3 * number, 2 * number, number)


def test_one_read_for_many_requests():
    """
    If requests arrive while the figures by minute are being read, they share one read.
    """
    reads = []

    class Scheduler:
        async def nodes(self):
            return []

        paused_scopes = nodes

        async def minutes(self, since):
            reads.append(since)
            await asyncio.sleep(0)
            return []

    class Figures:
        async def scheduler_stats(self):
            return {"offset_ms": 0, "waiting_for_handler": [], "paused_scopes": []}

    async def ask(lanes):
        await asyncio.gather(*(lanes.list(None) for _ in range(5)))

    asyncio.run(ask(service_lanes.Lanes(Scheduler(), Figures())))
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("queue", "is_stuck", "text"),
    [
        ({"ready": 4, "leased": 0, "workers": 0}, True, "no worker pulls images"),
        ({"ready": 4, "leased": 1, "workers": 0}, False, None),
        ({"ready": 4, "leased": 0, "workers": 2}, False, None),
        ({"ready": 0, "leased": 0, "workers": 0}, False, None),
    ],
)
def test_queues(queue, is_stuck, text):
    """
    A queue with jobs counts as stuck if no worker is waiting for a job or running one.
    """
    row = rows({"lanes": [state("pull:images", running=queue["ready"])], "queues": {"images": queue}})["pull:images"]
    assert (row.waiting, row.running, row.workers) == (queue["ready"], queue["leased"], queue["workers"])
    assert (row.is_stuck, row.text) == (is_stuck, text)


def test_a_worker_of_another_node():
    """
    A queue has a worker even if the worker and the jobs are on different nodes.
    """
    held = state("pull:images", waiting=7, reason="no_worker", oldest_due_at=1_000)
    ready, asked = {"ready": 0, "leased": 0, "workers": 0}, {"ready": 0, "leased": 0, "workers": 1}
    row = rows({"lanes": [held], "queues": {"images": ready}}, {"queues": {"images": asked}})["pull:images"]
    assert (row.waiting, row.workers, row.is_stuck) == (7, 1, False)
    assert rows({"lanes": [held]})["pull:images"].is_stuck


def test_jobs_without_a_node():
    """
    Jobs that no node can run are counted in the row of their handler or queue, which is shown as stuck and comes first.
    """
    aside = [{"target": "handler", "handler": "gone", "count": 8, "since": 5_000}]
    busy = state("handler:mail", waiting=5, reason="busy", oldest_due_at=1_000)
    found = rows({"lanes": [busy], "handlers": ["mail"]}, aside=aside)
    assert list(found) == ["handler:gone", "handler:mail"]
    row = found["handler:gone"]
    assert (row.waiting, row.nodes, row.is_stuck, row.text) == (8, 0, True, "no node has the handler gone")


@pytest.mark.parametrize("scope", ["*", "handler", "handler:mail"])
def test_pauses(scope):
    """
    A paused lane counts as drained, and not as stuck, as soon as none of its jobs runs any more.
    """
    pause = Pause(5_000, "ops", "disk", scope)
    for running in (2, 0):
        found = rows({"lanes": [state("handler:mail", running=running)]}, pauses=[pause], due={"handler:mail": 3})
        row = found["handler:mail"]
        assert (row.pause.scope, row.pause.note, row.scope) == (scope, "disk", "handler:mail")
        assert (row.is_drained, row.is_stuck, row.reason) == (not running, False, "paused")
        assert row.waiting == (3 if scope == "handler:mail" else 0)


@pytest.mark.parametrize(
    ("target", "receiver", "lane"),
    [
        ("webhook", "https://example.com", "webhook:https://example.com"),
        ("nats", "nats://broker:4222", "nats:"),
    ],
)
def test_receivers(target, receiver, lane):
    """
    If nodes report different states of a receiver, its row shows the worst of them.
    """
    reports = [
        {
            "lanes": [state(lane)],
            "receivers": [{"target": target, "receiver": receiver, "state": each, "reason": f"it is {each}"}],
        }
        for each in ("closed", "open", "full")
    ]
    row = rows(*reports)[lane]
    assert (row.receiver.state, row.receiver.reason, row.scope) == ("open", "it is open", target)


def test_figures_of_firings():
    """
    Each node reports figures of firings for each minute. A lane's row has the sums over all nodes and minutes.
    """
    lateness = (1, 0, 4, *(0,) * (BUCKETS - 3))
    lane = LaneMinute("handler:mail", 5, 2, 1, lateness=lateness, late_max_ms=12.0)
    minutes = [Minute(node, at * MINUTE_MS, lanes=(lane,)) for node in "ab" for at in (1, 2)]
    row = rows(minutes=minutes)["handler:mail"]
    assert (row.fired, row.failed, row.p50_ms, row.p99_ms) == (20, 8, 12.0, 12.0)


def test_the_rows_of_a_service(server):
    """
    A queue with jobs counts as stuck until a worker asks for its jobs.

    If the queue is paused and none of its jobs runs, it is shown as drained.
    """

    def row() -> dict[str, object]:
        return next(each for each in server.ask("GET", "/v1/lanes").json["lanes"] if each["lane"] == "pull:orphans")

    with server.live() as live:
        server.job("PUT", "orphan", {"delay": 0, "target": "pull", "handler": "orphans"})
        while not (queue := live.event()[1].get("pull", {}).get("orphans")) or not queue["ready"] + queue["waiting"]:
            pass
    assert (row()["is_stuck"], row()["waiting"], row()["text"]) == (True, 1, "no worker pulls orphans")
    (lease,) = server.ask("POST", "/v1/pull:lease", {"queue": "orphans"}).json["leases"]
    assert (row()["is_stuck"], row()["waiting"], row()["running"]) == (False, 0, 1)
    server.ask("POST", "/v1/scopes:pause", {"scope": "pull:orphans", "note": "why"})
    assert (row()["is_drained"], row()["pause"]["note"]) == (False, "why")
    server.ask("POST", "/v1/pull:ack", {"fire_id": lease["fire_id"]})
    assert row()["is_drained"] is True
    server.ask("POST", "/v1/scopes:resume", {"scope": "pull:orphans"})
