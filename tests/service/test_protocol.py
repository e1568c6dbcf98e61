"""
Below the API: what is not HTTP, what is cut short, and requests that a page of another site would send.
"""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

FAR = {"delay": 3600, "target": "log"}


@pytest.fixture
def kept(server):
    """
    Return a job's key; the test may not change the job.
    """
    before = server.job("PUT", "kept", FAR).json["job"]
    yield "kept"
    assert server.job("GET", "kept").json == before
    server.job("DELETE", "kept")


def check_problem(answer, status: int, name: str) -> None:
    """
    Check that *answer* is the problem *name*.
    """
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["type"]) == (status, f"/problems/{name}"), answer.json


def exchange(server, data: bytes) -> bytes:
    """
    Send *data* as it is, end the sending side, and return whatever comes back.
    """
    answer = b""
    with socket.create_connection((server.host, server.port), timeout=30) as connection, suppress(ConnectionError):
        with suppress(OSError):  # the other side may have closed already
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        while chunk := connection.recv(65_536):
            answer += chunk
    return answer


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET\r\n\r\n",
        b"GET /v1/jobs/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"PUT /v1/jobs/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=lambda data: repr(data[:40]),
)
def test_no_http(server, data):
    """
    Bytes that are not HTTP, or a head without end, are answered with a 4xx or a closed connection.
    """
    answer = exchange(server, data)
    assert not answer or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.usefixtures("kept")
def test_truncated_body(server):
    """
    A body that ends before its length is not taken for a whole one.
    """
    head = b"PUT /v1/jobs/kept HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    data = head + b'{"delay": 1}'
    answer = exchange(server, data)
    assert not answer or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::1", "127.0.0.1.evil.example", "a b"])
def test_foreign_host_header(server, host):
    """
    A name that is not ours, which a page on the web could make point here, is refused.
    """
    check_problem(server.ask("GET", "/v1/jobs", headers={"host": host}), 421, "wrong_host")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1"])
def test_foreign_origin(server, kept, origin):
    """
    A page of another origin cannot write.
    """
    check_problem(server.job("DELETE", kept, None, {"origin": origin}), 403, "forbidden")
    check_problem(server.job("POST", kept, None, {"origin": origin}, action=":run"), 403, "forbidden")


@pytest.mark.parametrize(
    "hosts", [b"", b"Host: localhost\r\nHost: localhost\r\n", b"Host: [::1]\r\nhost: evil.example\r\n"]
)
@pytest.mark.parametrize("path", [b"/v1/jobs", b"/healthz"])
def test_one_host_header(server, hosts, path):
    """
    A request without a Host header, or with several, of which a proxy may have read another, is a 400.
    """
    answer = exchange(server, b"GET " + path + b" HTTP/1.1\r\n" + hosts + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"/problems/malformed_request" in answer


def test_http_1_0_has_no_host_header(server):
    """
    HTTP/1.0 asks for none where the name does not matter; here it is checked, unless there are tokens.
    """
    assert exchange(server, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")
