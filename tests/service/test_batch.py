"""
Batches, cancels by prefix, and idempotency keys.
"""

from __future__ import annotations

import threading

import pytest

FAR = {"do": "set", "delay": 3600, "target": "log"}


def batch(server, items, headers=None):
    """
    Send a batch.
    """
    return server.ask("POST", "/v1/jobs:batch", {"items": items}, headers)


def test_each_item_has_its_result(server):
    """
    Sets, moves and cancels are done in their order; one that is refused says why and stops no other.
    """
    answer = batch(
        server,
        [
            FAR | {"key": "one"},
            FAR | {"key": "two", "handler": "nobody", "target": "handler"},
            FAR | {"key": "k" * 600},
            FAR | {"key": "three", "delay": 1e9, "if_generation": 5},
            {"do": "move", "key": "one", "delay": 7200},
            {"do": "move", "key": "none", "delay": 1},
            {"do": "cancel", "key": "one"},
            {"do": "move", "key": "one", "delay": 1},
        ],
    )
    assert answer.status == 200
    results = answer.json["results"]
    assert [(result["status"], result["outcome"]) for result in results] == [
        (201, "created"),
        (422, "refused"),
        (422, "refused"),
        (412, "refused"),
        (200, "moved"),
        (404, "refused"),
        (200, "cancelled"),
        (404, "refused"),
    ]
    assert results[1]["problem"]["type"] == "/problems/unknown_handler"
    assert "the limit is 512" in results[2]["problem"]["detail"]
    assert server.ask("GET", "/v1/jobs?prefix=t").json["jobs"] == []


def test_ten_thousand(server):
    """
    A batch of ten thousand is taken whole, and they can be cancelled by their prefix.
    """
    results = batch(server, [FAR | {"key": f"many/{n:05}"} for n in range(10_000)]).json["results"]
    assert [result["key"] for result in results] == [f"many/{n:05}" for n in range(10_000)]
    assert {result["status"] for result in results} == {201}
    assert server.ask("POST", "/v1/jobs:cancel", {"prefix": "many/"}).json == {"cancelled": 10_000}
    assert server.ask("GET", "/v1/jobs?prefix=many/").json["jobs"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"items": {}}, 422),
        ({"items": [{"key": "a"}]}, 422),
        ({"items": [{"do": "explode", "key": "a"}]}, 422),
        ({"items": [FAR]}, 422),
        ({"items": [FAR | {"key": "a", "surprise": 1}]}, 422),
        ({"items": [FAR | {"key": "a", "if_generation": -1}]}, 422),
        ({"items": [FAR | {"key": "a"}] * 10_001}, 422),
    ],
)
def test_batches_that_are_none(server, body, status):
    """
    A batch that cannot be read is refused as a whole, and nothing of it is done.
    """
    assert server.ask("POST", "/v1/jobs:batch", body).status == status
    assert server.job("GET", "a").status == 404


@pytest.mark.parametrize("body", [{}, {"prefix": ""}, {"prefix": 5}, {"prefix": "a\0"}, {"prefix": "k" * 513}])
def test_prefixes_that_are_none(server, body):
    """
    Nothing is cancelled by an empty prefix, or one that no key can begin with.
    """
    server.job("PUT", "stays", {"delay": 3600, "target": "log"})
    assert server.ask("POST", "/v1/jobs:cancel", body).status == 422
    assert server.job("DELETE", "stays").status == 200


def test_the_same_request_is_done_once(server):
    """
    The same request with the same idempotency key brings the first answer again, a refusal too, and is not done again.
    """
    body = {"delay": 3600, "target": "log"}
    first = server.job("PUT", "once", body, {"idempotency-key": "put-1"})
    again = server.job("PUT", "once", body, {"idempotency-key": "put-1"})
    assert (first.status, first.body, first.headers["etag"]) == (again.status, again.body, again.headers["etag"])
    assert server.job("GET", "once").json["generation"] == first.json["job"]["generation"]
    server.job("DELETE", "once", None, {"idempotency-key": "delete-1"})
    assert server.job("DELETE", "once", None, {"idempotency-key": "delete-1"}).json["outcome"] == "cancelled"
    assert server.job("DELETE", "once").status == 404
    refused = server.job("PATCH", "once", {"delay": 1}, {"idempotency-key": "patch-1"})
    server.job("PUT", "once", body)
    assert server.job("PATCH", "once", {"delay": 1}, {"idempotency-key": "patch-1"}).body == refused.body
    server.job("DELETE", "once")


def test_another_request_with_the_same_key(server):
    """
    Another body, method, address or condition with a key that was used is refused.
    """
    body = {"delay": 3600, "target": "log"}
    first = server.job("PUT", "reused", body, {"idempotency-key": "reused"})
    others = [
        ("PUT", "reused", body | {"delay": 1}, {}),
        ("PUT", "reused", body, {"if-match": first.headers["etag"]}),
        ("PUT", "reused", body, {"if-match": ""}),
        ("PUT", "else", body, {}),
        ("DELETE", "reused", None, {}),
    ]
    for method, key, other, headers in others:
        answer = server.job(method, key, other, headers | {"idempotency-key": "reused"})
        assert (answer.status, answer.json["type"]) == (422, "/problems/idempotency_key_reused")
    server.job("DELETE", "reused")


def test_the_same_request_at_the_same_time(server):
    """
    Of equal requests that arrive together one is done, and all have its answer.
    """
    answers = []

    def send():
        answers.append(server.job("PUT", "together", {"delay": 3600, "target": "log"}, {"idempotency-key": "together"}))

    senders = [threading.Thread(target=send) for _ in range(16)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert {(answer.status, answer.body) for answer in answers} == {(201, answers[0].body)}
    server.job("DELETE", "together")


@pytest.mark.parametrize("key", ["", "k" * 201, "a b", "caf\u00e9"])
def test_idempotency_keys_that_are_none(server, key):
    """
    A key that is empty, long, or no visible ASCII is refused.
    """
    answer = server.job("PUT", "never", {"delay": 3600, "target": "log"}, {"idempotency-key": key})
    assert (answer.status, answer.json["type"]) == (400, "/problems/malformed_request")
    assert server.job("GET", "never").status == 404
