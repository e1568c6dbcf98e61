"""
Rolling deployments: nodes with different handlers on one store fire only jobs that they can run.
"""

from __future__ import annotations

import itertools

import pytest

from tickwheel.observe.events import JobDied, JobFailed
from tickwheel.scheduler import RetryPolicy, Scheduler, SchedulerOptions, State

NUMBERS = itertools.count()
DEFAULT = RetryPolicy(attempts=3)
"""The retry policy of the tests.

A takeover of a shard may use up an attempt. A node without the handler must not use up any."""


@pytest.fixture(params=["postgres", "redis"])
def address(request):
    """
    Return the address of an empty store that several nodes may share, for each kind of store.
    """
    if request.param == "postgres":
        server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        yield f"{server.url(database)}&lease_s=2&shards=12"
    else:
        server = request.getfixturevalue("redis_server")
        yield server.url(f"?prefix=rolling-{next(NUMBERS)}&lease_s=2&shards=12")
        server.execute("FLUSHALL")


class Deployment:
    """
    Nodes of two versions, and the jobs that each node has run.
    """

    def __init__(self, address, until):
        self.address = address
        self.until = until
        self.nodes = {}
        self.runs = []
        self.troubles = []

    def start(self, name, *handlers):
        """
        Start the node *name*.
        """
        node = Scheduler(self.address, options=SchedulerOptions(owner=name, retry=DEFAULT))
        node.subscribe(self.notice)
        for handler in handlers:
            node.handler(handler)(lambda payload, handler=handler: self.runs.append((name, handler, payload)))
        self.nodes[name] = node.start()
        return node

    def notice(self, event):
        """
        Record an error event.
        """
        if isinstance(event, JobDied | JobFailed):
            self.troubles.append(event)

    def stop(self, name):
        self.nodes.pop(name).stop(timeout=5.0)

    def wait_for(self, count):
        """
        Wait for *count* finished runs, and return them.
        """
        self.until(lambda: len(set(self.runs)) >= count, lambda: (len(self.runs), self.troubles))
        return set(self.runs)


@pytest.fixture
def deployment(address, until):
    """
    Return a deployment.

    The fixture stops it at the end.
    """
    made = Deployment(address, until)
    yield made
    for name in list(made.nodes):
        made.stop(name)


def owners(deployment):
    """
    Return the names of the nodes that own shards.
    """
    return {shard.owner.partition(":")[0] for shard in next(iter(deployment.nodes.values())).shards() if shard.owner}


def test_two_versions_on_three_nodes(deployment, until):
    """
    While three nodes change from one version to the next, jobs of both versions run on nodes that have their handlers.
    """
    numbers = itertools.count()
    expected = []

    def set_some(handlers):
        client = next(iter(deployment.nodes.values()))
        for handler in handlers * 20:
            number = next(numbers)
            expected.append((handler, number))
            client.set(f"{handler}-{number}", delay=0.05 * (number % 4), handler=handler, payload=number)

    for number in range(3):
        deployment.start(f"old-{number}", "both", "first")
    until(lambda: len(owners(deployment)) == 3)
    for number in range(3):
        deployment.start(f"new-{number}", "both", "second")
        until(lambda number=number: f"new-{number}" in owners(deployment))
        set_some(["both", "first", "second"])
        deployment.stop(f"old-{number}") if number < 2 else None
        set_some(["both", "first", "second"])
    runs = deployment.wait_for(len(expected))
    assert {(handler, number) for _, handler, number in runs} == set(expected)
    for name, handler, _ in runs:
        assert handler in {"old": ("both", "first"), "new": ("both", "second")}[name[:3]]
    assert deployment.troubles == []
    set_some(["first", "second"])
    deployment.wait_for(len(expected))
    deployment.stop("old-2")  # the last node with the first handler
    before = len(expected)
    set_some(["first", "second"])
    deployment.wait_for(before + 20)
    client = deployment.nodes["new-0"]
    until(lambda: sum(each["count"] for each in client.stats()["waiting_for_handler"]) == 20)
    assert {each["handler"] for each in client.stats()["waiting_for_handler"]} == {"first"}
    job = client.list(prefix="first-").jobs[0]
    assert (job.state, job.lacks_handler, job.attempt) == (State.PENDING, True, 0)
    deployment.start("old-3", "both", "first")
    deployment.wait_for(len(expected))
    assert {(handler, number) for _, handler, number in deployment.runs} == set(expected)
    assert client.stats()["waiting_for_handler"] == []
    assert deployment.troubles == []


def test_a_retry_runs_where_its_handler_is(deployment, until):
    """
    The retries and the next runs of a job take place on the node that has its handler.
    """
    deployment.start("old", "other")
    until(lambda: owners(deployment) == {"old"})
    deployment.start("new")
    until(lambda: owners(deployment) == {"old", "new"})
    attempts = []

    def work(payload, firing):
        attempts.append((payload, firing.attempt))
        if firing.attempt == 1:
            raise ValueError(payload)

    retry = RetryPolicy(attempts=2, base_ms=1, jitter=0)
    deployment.nodes["new"].handler("work", retry=retry)(work)
    for number in range(8):
        deployment.nodes["old"].set(f"once-{number}", delay=0.1, handler="work", payload=number, retry=retry)
        deployment.nodes["new"].set(f"often-{number}", every=1, handler="work", payload=100 + number, retry=retry)
    until(lambda: all((number, 2) in attempts for number in range(8)))
    until(lambda: all(attempts.count((number, 1)) >= 3 for number in range(100, 108)), lambda: attempts)
    for number in range(8):
        assert [attempt for payload, attempt in attempts if payload == number] == [1, 2]
