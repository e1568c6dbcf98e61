"""
A named lane gives several handlers one limit, one share of memory and one share of the workers.
"""

from __future__ import annotations

import pytest

from tickwheel.host.lane_names import LaneNames
from tickwheel.scheduler import InvalidJobError, Scheduler, SchedulerOptions, SetRequest, task

BULK = ("mail", "report", "export")


def requests(names, count):
    """
    Return *count* due jobs for each handler in *names*. The handlers alternate.
    """
    return [
        SetRequest(f"{name}/{n}", delay=0, handler=name, payload=f"{name}/{n}") for n in range(count) for name in names
    ]


@pytest.mark.parametrize("count", [5, 300])
@pytest.mark.parametrize("is_late", [False, True], ids=["before the start", "after it"])
def test_handlers_of_a_lane(url, make, record, go_on, until, *, count, is_late):
    """
    The handlers of a lane share the lane's concurrency limit and its part of memory.

    The handlers delay no other lane, and each of their jobs runs once.
    """
    scheduler = make(url, options=SchedulerOptions(staged_max=100))
    begun = []

    def hang(payload):
        begun.append(payload)
        go_on.wait()

    def register():
        for name in BULK:
            scheduler.handler(name, lane="bulk", concurrency=2, timeout=None)(hang)

    scheduler.handler("other")(record)
    if not is_late:
        register()
    scheduler.set_many(requests(BULK, count))
    scheduler.start()
    if is_late:
        register()
    scheduler.set_many(requests(["other"], 20))
    record.wait(20)
    until(lambda: len(begun) == 2)
    lanes = until(lambda: {each["lane"]: each for each in scheduler.stats()["lanes"] if each["reason"]})
    assert lanes.keys() == {"lane:bulk"}
    assert (lanes["lane:bulk"]["reason"], lanes["lane:bulk"]["running"]) == ("concurrency", 2)
    assert lanes["lane:bulk"]["staged"] <= 75
    waiting = next(request.key for request in requests(BULK, count) if request.payload not in begun)
    until(lambda: scheduler.explain(waiting).reason == "concurrency")
    found = scheduler.explain(waiting)
    assert (found.lane, found.state.concurrency) == ("lane:bulk", 2)
    go_on.set()
    until(lambda: len(begun) == len(BULK) * count)
    assert sorted(begun) == sorted(request.payload for request in requests(BULK, count))


def test_one_rate(url, make, until):
    """
    The rate of a lane limits all its handlers together.
    """
    scheduler, begun = make(url), []
    for name in BULK:
        scheduler.handler(name, lane="bulk", rate=0.01)(begun.append)
    scheduler.set_many(requests(BULK, 2))
    scheduler.start()
    until(lambda: [each["waiting"] for each in scheduler.stats()["lanes"] if each["lane"] == "lane:bulk"] == [5])
    until(lambda: len(begun) == 1)


def test_tasks(make, record):
    """
    A task may name a lane, too.

    The lane then applies to all names of the task.
    """

    @task(name="count", aliases=("number",), lane="bulk", concurrency=1)
    def count(number: int):
        record(number)

    scheduler = make("memory://")
    scheduler.register(count)
    scheduler.handler("mail", lane="bulk", concurrency=1)(print)
    lanes = scheduler._core.registry.lanes
    assert lanes.members("lane:bulk") == ("handler:count", "handler:number", "handler:mail")
    assert [lanes.of("handler", name) for name in ("count", "number", "mail", "other")] == [
        *["lane:bulk"] * 3,
        "handler:other",
    ]
    scheduler.set("k", delay=0, handler="number", payload={"number": 3})
    scheduler.start()
    assert record.wait(1) == [3]


@pytest.mark.parametrize(
    ("limits", "others"),
    [
        ({"rate": 5}, {}),
        ({}, {"rate": 5}),
        ({"rate": 5}, {"rate": 6}),
        ({"concurrency": None}, {}),
        ({"concurrency": 1}, {"rate": 1}),
    ],
)
def test_handlers_with_other_limits(limits, others):
    """
    A handler whose limits differ from the limits of its lane is refused.

    It is not registered.
    """
    scheduler = Scheduler("memory://")
    scheduler.handler("mail", lane="bulk", **limits)(print)
    with pytest.raises(InvalidJobError, match="lane is 'bulk': its handler 'mail' has"):
        scheduler.handler("report", lane="bulk", **others)(print)
    assert not scheduler.has_handler("report")
    scheduler.handler("report", lane="other", **others)(print)
    scheduler.stop()


@pytest.mark.parametrize("lane", ["", 7, b"bulk", "x" * 256, "nul\0", "\ud800"])
def test_invalid_names_of_lanes(lane):
    """
    An invalid name for a lane is refused.
    """
    scheduler = Scheduler("memory://")
    with pytest.raises(InvalidJobError, match="lane"):
        scheduler.handler("mail", lane=lane)(print)
    scheduler.stop()


def test_no_named_lanes():
    """
    Without a named lane, each handler is its own lane.

    This holds even if the handler's name looks like the name of a lane.
    """
    lanes = LaneNames()
    assert lanes.of("handler", "bulk") == "handler:bulk"
    assert lanes.members("lane:bulk") == ("lane:bulk",)
