"""
Three nodes on one PostgreSQL behind nginx, as in `deploy/`.

The nodes have one address, which works while nodes start and stop.
"""

from __future__ import annotations

import json
import re
import signal

import pytest
from processes import find

pytestmark = pytest.mark.skipif(find("nginx") is None, reason="nginx is not installed: make servers")


def test_nodes_come_and_go(nodes, proxy, until):
    """
    While jobs are being set, one node is killed and another is stopped. Each request is answered, and each job fires.
    """
    for number in range(90):
        if number == 30:
            nodes[0].stop(signal.SIGKILL)
        if number == 60:
            assert nodes[1].stop() == 0
        with proxy("PUT", f"/v1/jobs/job{number}", {"delay": 1, "target": "log"}) as answer:
            assert answer.status in {200, 201}, answer.read()

    def have_fired():
        with proxy("GET", "/v1/jobs?prefix=job") as answer:
            return not json.load(answer)["jobs"]

    until(have_fired)
    with proxy("GET", "/v1/fleet") as answer:
        fleet = json.load(answer)
    assert {shard["owner"] for shard in fleet["shards"]} == {fleet["owner"]}


def test_which_requests_pass_the_proxy(proxy):
    """
    The live stream and large batches pass the proxy. Requests for the metrics of a single node do not pass.
    """
    with proxy("GET", "/v1/live") as stream:
        assert stream.readline().startswith(b"event: ")
    item = {"do": "set", "delay": 3600, "target": "log", "payload": "x" * 1_000_000}
    with proxy("POST", "/v1/jobs:batch", {"items": [item | {"key": f"big{number}"} for number in range(5)]}) as answer:
        assert answer.status == 200
    for path in ("/metrics", "/internal/pull"):
        with proxy("GET", path) as answer:
            assert (answer.status, answer.headers.get_content_type()) == (404, "text/html"), "nginx itself answers"
    with proxy("GET", "/") as answer:
        assert answer.read().startswith(b"<!doctype html>")


def test_pull_workers(proxy):
    """
    Behind the proxy, workers can lease, extend and acknowledge jobs at any node, and each job runs once.
    """
    for number in range(24):
        body = {"delay": 0, "target": "pull", "handler": "images"}
        with proxy("PUT", f"/v1/jobs/pull{number}", body) as answer:
            assert answer.status in {200, 201}
    keys = []
    while len(keys) < 24:
        with proxy("POST", "/v1/pull:lease", {"queue": "images", "wait": 20}) as answer:
            leases = json.load(answer)["leases"]
        for lease in leases:
            keys.append(lease["job"]["key"])
            for verb, more in (("extend", {"seconds": 60}), ("ack", {})):
                with proxy("POST", f"/v1/pull:{verb}", {"fire_id": lease["fire_id"]} | more) as answer:
                    assert answer.status == 200, answer.read()
    assert len(set(keys)) == 24


def test_a_repeated_request(nodes, proxy):
    """
    If a request is repeated with its idempotency key, every node gives the same answer, even while a node is killed.
    """
    requests = [
        ("PUT", "/v1/jobs/once", {"delay": 3600, "target": "log"}),
        ("POST", "/v1/jobs:batch", {"items": [{"do": "set", "key": "many", "delay": 3600, "target": "log"}]}),
        ("POST", "/v1/jobs:bulk", {"do": "move", "shift": 60, "prefix": "m"}),
        ("DELETE", "/v1/jobs/once", None),
    ]
    found = {}
    for turn in range(6):
        if turn == 3:
            nodes[0].stop(signal.SIGKILL)
        for number, request in enumerate(requests):
            with proxy(*request, f"key{number}") as answer:
                found.setdefault(number, []).append((answer.status, answer.read()))
    assert {number: len(set(answers)) for number, answers in found.items()} == dict.fromkeys(range(4), 1)
    assert [answers[0][0] for answers in found.values()] == [201, 200, 200, 200]
    with proxy("PUT", "/v1/jobs/other", {"delay": 5, "target": "log"}, "key0") as answer:
        assert (answer.status, json.load(answer)["type"]) == (422, "/problems/idempotency_key_reused")


ELSEWHERE = ("/v1/live", "/metrics")
"""Paths that `test_every_operation_at_every_node` omits, because `test_which_requests_pass_the_proxy` requests them."""


def operations_of(document):
    """
    Yield the method, path, example body and documented statuses of each operation of the API.
    """
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in {"get", "put", "post", "patch", "delete"} and path not in ELSEWHERE:
                (content, *_) = [*operation.get("requestBody", {}).get("content", {}).values(), {}]
                yield method.upper(), path, content.get("example"), set(operation["responses"])


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "kill"])
def test_every_operation_at_every_node(nodes, proxy, start_node, fault):
    """
    Every node gives the same answer to each operation, even while one node is killed and started again.
    """
    with proxy("GET", "/openapi.json") as answer:
        operations = list(operations_of(json.load(answer)))
    assert len(operations) >= 40
    odd = {}
    for number, (method, path, body, documented) in enumerate(operations):
        if fault == "kill" and number == len(operations) // 3:
            nodes[0].stop(signal.SIGKILL)
        if fault == "kill" and number == 2 * len(operations) // 3:
            start_node("a", nodes[0].port)
        found = set()
        for _ in range(len(nodes)):
            job = {"every": 3600, "target": "log"} if "skip" in path or "backfill" in path else {"delay": 3600}
            with proxy("PUT", "/v1/jobs/k", {"target": "log"} | job) as answer:
                assert answer.status in {200, 201}, answer.read()
            asked = body | {"wait": 0} if body is not None and "wait" in body else body
            with proxy(method, re.sub(r"\{\w+\}", "k", path), asked) as answer:
                is_problem = answer.headers.get_content_type() == "application/problem+json"
                found.add((answer.status, json.load(answer)["type"] if is_problem else ""))
        if len(found) > 1 or not {str(status) for status, _ in found} <= documented or max(found)[0] >= 500:
            odd[method, path] = found
    assert not odd
