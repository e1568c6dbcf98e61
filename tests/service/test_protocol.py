"""
Bytes that are not HTTP, truncated requests, and requests from pages of other sites.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress

import pytest

FAR = {"delay": 3600, "target": "log"}


@pytest.fixture
def kept(server):
    """
    Return the key of a job that the tests must leave unchanged.
    """
    before = server.job("PUT", "kept", FAR).json["job"]
    yield "kept"
    assert server.job("GET", "kept").json == before
    server.job("DELETE", "kept")


def check_problem(answer, status: int, name: str) -> None:
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status, answer.json["type"]) == (status, f"/problems/{name}"), answer.json


def exchange(server, data: bytes) -> bytes:
    """
    Send *data* unchanged, close the sending side, and return the whole answer.
    """
    answer = b""
    with socket.create_connection((server.host, server.port), timeout=30) as connection, suppress(ConnectionError):
        with suppress(OSError):  # the server may already have closed
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
def test_bytes_that_are_not_http(server, data):
    """
    The answer to bytes that are not HTTP, or to a head that does not end, is a 4xx or a closed connection.
    """
    answer = exchange(server, data)
    assert not answer or answer.startswith(b"HTTP/1.1 4")


def test_requests_in_one_piece(server):
    """
    If several requests arrive together, they are answered in order, up to one with `Connection: close`.
    """
    body = b'{"delay": 3600, "target": "log"}'
    put = (
        b"PUT /v1/jobs/piece HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    )
    get = b"%b /v1/jobs/piece HTTP/1.1\r\nHost: [::1]\r\n\r\n"
    last = b"DELETE /v1/jobs/piece HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n"
    requests = put % (len(body), body) + get % b"HEAD" + get % b"GET" + last + get % b"GET"
    # the client does not read the answers, and nothing is logged
    exchange(server, requests.replace(b"/piece", b"/unheard"))
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall(requests)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    created, head, found, cancelled = (each.partition(b"\r\n\r\n") for each in answer.split(b"HTTP/1.1 ")[1:])
    assert [each[0][:3] for each in (created, head, found, cancelled)] == [b"201", b"200", b"200", b"200"]
    assert json.loads(created[2])["job"] == json.loads(found[2])
    assert head[2] == b""
    for text in (created[0], head[0], found[0]):
        headers = dict(line.split(b": ", 1) for line in text.split(b"\r\n")[1:])
        assert headers.keys() == {
            b"date",
            b"content-type",
            b"content-length",
            b"cache-control",
            b"x-content-type-options",
            b"etag",
        }
    assert int(dict(line.split(b": ", 1) for line in head[0].split(b"\r\n")[1:])[b"content-length"]) == len(found[2])
    assert json.loads(cancelled[2])["outcome"] == "cancelled"
    assert b"connection: close" in cancelled[0]


def test_requests_in_one_packet_have_separate_callers(server):
    """
    If several requests arrive in one packet, each has its own caller and trace.
    """
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    body = b'{"every": 3600, "target": "log"}'
    put = b"PUT /v1/jobs/%b HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
    from_page = b"Origin: http://[::1]\r\nTraceparent: %b\r\n" % trace.encode()
    last = b"Connection: close\r\n"
    requests = put % (b"of-page", len(body), from_page, body) + put % (b"of-program", len(body), last, body)
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall(requests)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.count(b"HTTP/1.1 201") == 2
    by = {key: server.job("GET", key, action=":history").json["records"][0]["by"] for key in ("of-page", "of-program")}
    assert by["of-page"].startswith("page from")
    assert not by["of-program"].startswith("page from")
    assert (server.job("GET", "of-page").json["trace"] or "")[3:35] == "1" * 32
    assert server.job("GET", "of-program").json["trace"] is None
    for key in by:
        server.job("DELETE", key)


def test_an_answer_in_one_piece(server):
    """
    A whole answer is sent at once, so that the client needs only one read.
    """
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        for _ in range(50):
            connection.sendall(b"GET /v1/jobs?limit=1 HTTP/1.1\r\nHost: [::1]\r\n\r\n")
            head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
            assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"


@pytest.mark.usefixtures("kept")
def test_truncated_body(server):
    """
    A body that ends before its announced length is refused.
    """
    head = b"PUT /v1/jobs/kept HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    data = head + b'{"delay": 1}'
    answer = exchange(server, data)
    assert not answer or answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "[::1", "127.0.0.1.evil.example", "a b"])
def test_foreign_host_header(server, host):
    """
    A Host header with an unknown name is refused, because an attacker's DNS could point this name at the service.
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
    A request without a Host header, or with several Host headers, gets a 400.
    """
    answer = exchange(server, b"GET " + path + b" HTTP/1.1\r\n" + hosts + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"/problems/malformed_request" in answer


def test_http_1_0_has_no_host_header(server):
    """
    An HTTP/1.0 request may omit the Host header. A service without tokens then accepts only health probes.
    """
    for path, status in ((b"/healthz", b"200"), (b"/readyz", b"200"), (b"/v1/jobs", b"421")):
        assert exchange(server, b"GET " + path + b" HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("name", [b"Idempotency-Key", b"If-Match", b"If-None-Match", b"Content-Type", b"Authorization"])
def test_one_header_of_a_kind(server, name):
    """
    If a header may occur only once, a request that repeats it is refused.
    """
    twice = name + b": 1\r\n" + name.lower() + b": 2\r\n"
    answer = exchange(server, b"DELETE /v1/jobs/never HTTP/1.1\r\nHost: [::1]\r\n" + twice + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"there are 2 " + name + b" headers: send one " in answer


def test_the_head_of_a_stream(server):
    """
    A HEAD request for the stream gets the headers of the stream, and then the answer ends.
    """
    answer = server.ask("HEAD", "/v1/live")
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
