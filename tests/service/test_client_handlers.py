"""
The options of handlers on a client of a service: executor, rate and retries.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from contextlib import nullcontext

import pytest

from tickwheel.scheduler import Firing, InvalidJobError, RetryPolicy, SetRequest

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")


def processes():
    """
    Return the worker processes that run handlers.
    """
    return [each for each in multiprocessing.active_children() if each.name == "tickwheel-handler"]


def test_processes_end_with_their_client(client, until):
    """
    If the client stops, its worker processes end, even if a handler in one of them does not end in time.
    """
    client.handler("naps", executor="process")(time.sleep)
    client.start()
    client.set("short", delay=0, target="pull", handler="naps", payload=0)
    until(lambda: client.get("short") is None)
    client.set_many([SetRequest(f"long {n}", delay=0, target="pull", handler="naps", payload=300) for n in range(2)])
    until(lambda: len(processes()) == 2)
    begun = processes()
    assert len(client.stop(timeout=0.1)) == 2
    for each in begun:
        each.join(60)
    assert processes() == []


def test_a_rate(client):
    """
    The attempts of a handler start no more often than its rate limit allows.
    """
    ended = threading.Semaphore(0)
    client.handler("paced", rate=10)(lambda _: ended.release())
    with client:
        begun = time.monotonic()
        client.set_many([SetRequest(f"paced {n}", delay=0, target="pull", handler="paced") for n in range(5)])
        for _ in range(5):
            assert ended.acquire(timeout=60)
        assert time.monotonic() - begun >= 0.4


def test_tasks(client, until):
    """
    A task of a client pulls jobs from the queue with the task's name.

    A payload that does not fit the task uses no attempt.
    """
    pytest.importorskip("msgspec", reason="msgspec is not installed: pip install 'tickwheel[tasks]'")
    seen = []

    @client.task(name="of a service", dead_on=KeyError)
    def run(number: int, firing: Firing | None = None) -> None:
        seen.append((number, firing.attempt))
        if number:
            raise KeyError(number)

    @client.middleware
    def around(firing):
        seen.append(firing.job.key)
        return nullcontext()

    with client:
        client.set("good", run.of(0), delay=0, target="pull")
        until(lambda: "good" in seen and client.get("good") is None)
        assert seen == ["good", (0, 1)]
        client.set("dead", run.of(3), delay=0, target="pull")
        until(lambda: (job := client.get("dead")) is not None and job.state == "dead")
        assert (client.get("dead").error, client.get("dead").attempt) == ("KeyError: 3", 1)
        now = client.set("misfit", delay=0, target="pull", handler="of a service", payload={}).job.due_at
        until(lambda: client.get("misfit").due_at > now)
        assert (client.get("misfit").state, client.get("misfit").attempt) == ("pending", 0)
        with pytest.raises(InvalidJobError, match="or pass 'pull'"):
            client.set("k", run.of(0), delay=0, target="webhook")


def test_a_policy(client):
    """
    The retry policy of a handler applies to the jobs that are set without a policy in the same process.
    """
    patient, own, usual = RetryPolicy(attempts=9, base_ms=5_000), RetryPolicy(attempts=2), RetryPolicy()
    client.handler("patient", retry=patient)(print)
    named = {"delay": 3600, "target": "pull", "handler": "patient"}
    assert client.set("policy", **named).job.retry == patient
    assert client.set("policy", **named, retry=own).job.retry == own
    assert client.set("policy", delay=3600, target="pull", handler="another").job.retry == usual
    (answer,) = client.set_many([SetRequest("policy", **named)])
    assert answer.job.retry == patient
    client.cancel("policy")
