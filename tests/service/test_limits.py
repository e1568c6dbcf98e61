"""
Limits for a single client, and requests that do not arrive completely.
"""

from __future__ import annotations

import json
import socket
from datetime import timedelta

import pytest
from years import YEAR

from tickwheel.scheduler import AsyncScheduler, InvalidJobError
from tickwheel.service import ServiceOptions
from tickwheel.service.bodies import SetBody
from tickwheel.service.problems import ProblemError
from tickwheel.service.refusals import check_set

FAR = {"delay": 3600, "target": "log"}


def test_rate(start):
    """
    If a client sends too many requests, `Retry-After` says how long to wait until it is served again.
    """
    server = start("--rate", "5")
    statuses = [server.ask("GET", "/v1/jobs").status for _ in range(40)]
    assert statuses[:10] == [200] * 10
    assert 429 in statuses
    refused = None
    while refused is None or refused.status != 429:
        refused = server.ask("GET", "/v1/jobs")
    assert refused.json["type"] == "/problems/too_many_requests"
    assert 1 <= int(refused.headers["retry-after"]) <= 2


def test_rate_of_wrong_tokens(start):
    """
    Requests without a valid token count against the limit of their IP address, and not against the limit of a token.
    """
    tokens = [{"authorization": f"Bearer {letter * 40}"} for letter in "rw"]
    environment = {"TICKWHEEL_READ_TOKEN": "r" * 40, "TICKWHEEL_WRITE_TOKEN": "w" * 40}
    server = start("--rate", "0.01", environment=environment)  # allows one request, and the next one only after minutes
    wrong = [server.ask("GET", "/v1/jobs", headers={"authorization": f"Bearer {n}"}).status for n in range(3)]
    assert wrong == [401, 429, 429]
    assert server.ask("GET", "/v1/jobs").status == 429
    for token in tokens:  # these tokens are new, and their address has used up its limit
        assert server.ask("GET", "/v1/jobs", headers=token).status == 200
        assert server.ask("GET", "/v1/jobs", headers=token).status == 429


def test_health_at_any_rate(start):
    """
    While a proxy passes on a flood of requests, the proxy's health checks are still answered.
    """
    server = start("--rate", "0.01")
    assert [server.ask("GET", "/v1/jobs").status for _ in range(2)] == [200, 429]
    assert [server.ask("GET", path).status for path in ("/healthz", "/readyz") for _ in range(2)] == [200] * 4


def test_pending_max(start, until):
    """
    At the limit of pending jobs, requests to set jobs are refused, but requests to move or cancel jobs are not.
    """
    server = start("--pending-max", "3")
    items = [{"do": "set", "key": f"k{n}"} | FAR for n in range(3)]
    many = [{"do": "set", "key": f"m{n}"} | FAR for n in range(4)]
    assert server.ask("POST", "/v1/jobs:batch", {"items": many}).status == 429
    assert server.ask("POST", "/v1/jobs:batch", {"items": items}).status == 200
    answer = server.job("PUT", "more", FAR)
    while answer.status == 201:  # the count may be a quarter of a second old
        server.job("DELETE", "more")
        answer = server.job("PUT", "more", FAR)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert "--pending-max" in answer.json["remedy"]
    assert server.ask("POST", "/v1/jobs:batch", {"items": items}).status == 429
    again = {"idempotency-key": "again"}
    assert server.job("PUT", "more", FAR, again).status == 429
    assert server.job("PATCH", "k0", {"delay": 1}).status == 200
    assert server.job("DELETE", "k1").status == 200
    until(lambda: server.job("PUT", "more", FAR, again).status == 201)  # a 429 is not stored under its idempotency key


def test_pending_max_of_a_backfill(start, until):
    """
    A backfill sets jobs only up to the maximum number of pending jobs, but a dry run returns its full count.
    """
    server = start("--pending-max", "5")
    assert server.job("PUT", "filled", {"every": 60, "target": "log", "at": f"{YEAR}-01-01T00:00:00Z"}).status == 201
    until(lambda: server.ask("GET", "/v1/stats").json["pending"] == 1)
    body = {"since": f"{YEAR - 1}-12-31T23:50:00Z", "until": f"{YEAR}-01-01T00:00:00Z"}
    assert server.ask("POST", "/v1/schedules/filled:backfill", body | {"dry_run": True}).json["runs"] == 10
    assert server.ask("POST", "/v1/schedules/filled:backfill", body).status == 429
    assert server.ask("GET", "/v1/stats").json["pending"] == 1


def test_a_request_that_does_not_arrive(start):
    """
    If the head or the body of a request does not arrive completely, the answer is a 408.
    """
    server = start("--request-timeout", "0.5")
    heads = [
        b"",
        b"PUT /v1/jobs/slow HTTP/1.1\r\nHost: [::1]\r\n",
        b"PUT /v1/jobs/slow HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{",
    ]
    for head in heads:
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            connection.sendall(head)
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "/problems/slow_request"
            assert connection.recv(1) == b""
    assert server.job("GET", "slow").status == 404


@pytest.mark.parametrize("value", [timedelta(minutes=30), "30m", "PT30M", 1800])
def test_seconds_of_options(value):
    """
    Every option of the service that is a duration accepts all forms of a duration.
    """
    options = ServiceOptions(every_min_s=value, request_timeout_s=value, stop_timeout_s=value)
    scheduler = AsyncScheduler("memory://")
    check_set(SetBody(every="30m", target="log"), scheduler, options.every_min_s)
    with pytest.raises(ProblemError, match="give at least 1800 s"):
        check_set(SetBody(every="29m", target="log"), scheduler, options.every_min_s)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"every_min_s": "soon"}, "every_min_s is 'soon': write numbers with units such as 90s"),
        ({"request_timeout_s": 0}, "request_timeout_s is 0: pass seconds, more than 0"),
        ({"stop_timeout_s": "-1s"}, "stop_timeout_s is '-1s': pass seconds, at least 0"),
    ],
)
def test_options_that_are_not_lengths_of_time(fields, problem):
    """
    An option that must be a duration refuses every other value.

    The error has the value and the valid forms.
    """
    with pytest.raises(InvalidJobError, match=problem):
        ServiceOptions(**fields)


def test_an_idle_connection(start):
    """
    An idle connection is closed after a while, even if an empty line arrives on it.
    """
    server = start("--request-timeout", "0.5")
    for stray in (b"", b"\r\n"):
        with socket.create_connection((server.host, server.port), timeout=30) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n")
            assert connection.recv(65_536).endswith(b"\r\n\r\nok\n")
            connection.sendall(stray)
            assert connection.recv(1) == b""


def test_a_request_that_begins_before_an_answer(start):
    """
    A connection is not closed as idle while a request is served.
    """
    server = start("--request-timeout", "PT1S")
    body = json.dumps({"queue": "none", "wait": 5}).encode()
    first = b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\n\r\n"
    second = b"POST /v1/pull:lease HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\n"
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall(first + second[:20])
        assert connection.recv(65_536).endswith(b"\r\n\r\nok\n")
        connection.sendall(second[20:] + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_many_requests_at_once(start):
    """
    If many requests arrive together, they are not mistaken for one request with too large a head.
    """
    server = start()
    request = b"GET /healthz HTTP/1.1\r\nHost: [::1]\r\nX-Filler: " + bytes(b"x" * 1_000) + b"\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall(300 * request + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answers.count(b"HTTP/1.1 200 ") == 301
    assert b"HTTP/1.1 400 " not in answers
