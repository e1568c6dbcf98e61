"""
A client of a service behind a proxy that answers in place of the service.
"""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tickwheel.remote import _client
from tickwheel.scheduler import Scheduler, StoreError

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")
pytest.importorskip("msgspec", reason="the service extra is not installed")
from tickwheel.service.replies import problem_of

LOST, GONE = (502, "text/html", b"<h1>Bad Gateway</h1>"), (504, "text/html", b"late")
LOST_IN_JSON = (502, "application/json", b'{"message": "an invalid response was received"}')
BUSY = (503, "application/problem+json", json.dumps({"type": "/store_unavailable", "detail": "busy"}).encode())
DOUBT = problem_of(StoreError("the commit got no answer", "look", is_transient=True, is_unknown=True)).document()
DOUBTFUL = (503, "application/problem+json", json.dumps(DOUBT).encode())


@pytest.fixture
def proxy():
    """
    Return a server's URL, a list of the answers to send, and a list of the statuses that were sent.
    """
    answers, given = [], []

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, kind, body, *takes_s = answers.pop(0) if len(answers) > 1 else answers[0]
            time.sleep(sum(takes_s))  # the service behind the proxy takes this time
            given.append(status)
            self.send_response(status)
            self.send_header("content-type", kind.partition(";")[0])
            if "gzip" in kind:
                self.send_header("content-encoding", "gzip")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - names of the library

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", answers, given
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("script", [[LOST], [GONE], [LOST_IN_JSON], [LOST, BUSY], [DOUBTFUL], [DOUBTFUL, BUSY]])
def test_a_write_that_a_proxy_lost(proxy, script):
    """
    After a 502 or 504, a write is sent again. If every answer is a 502 or 504, the outcome of the write is unknown.
    """
    url, answers, given = proxy
    answers += script
    with contextlib.closing(Scheduler(url, timeout=3.0)) as client, pytest.raises(StoreError) as caught:
        client.cancel("k")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, True)
    assert len(given) > 1


def test_an_item_of_a_batch_with_an_unknown_outcome(proxy):
    """
    If a write in a batch may have taken effect, the result for its job is an error that says so.
    """
    url, answers, _ = proxy
    result = {"key": "a", "status": 503, "outcome": "refused", "problem": DOUBT}
    answers.append((200, "application/json", json.dumps({"results": [result] * 2}).encode()))
    with contextlib.closing(Scheduler(url)) as client, pytest.raises(StoreError, match="got no answer") as caught:
        client.cancel_many(["a", "b"])
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, True)


def test_a_call_whose_second_batch_is_refused(proxy, monkeypatch):
    """
    If only some batches of a call are executed, the error has the number of requests that were executed.
    """
    monkeypatch.setattr(_client, "_ITEMS_MAX", 2)
    url, answers, _ = proxy
    done = {"key": "a", "status": 200, "outcome": "resumed"}
    answers += [(200, "application/json", json.dumps({"results": [done] * 2}).encode()), BUSY]
    with contextlib.closing(Scheduler(url, timeout=0.5)) as client, pytest.raises(StoreError) as caught:
        client.resume_many(["a", "b", "c"])
    assert f"{url}: 2 of 3 writes are done, and the next batch failed" in str(caught.value)
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, True)


def test_a_write_that_was_refused_as_busy(proxy):
    """
    If the service refuses a write as busy at each attempt, the error says that the write was not executed.
    """
    url, answers, _ = proxy
    answers.append(BUSY)
    with contextlib.closing(Scheduler(url, timeout=3.0)) as client, pytest.raises(StoreError, match="busy") as caught:
        client.cancel("k")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, False)


def test_a_retry_without_time_for_an_answer(proxy, monkeypatch):
    """
    A refused write is not sent again if there is not enough time left to wait for the answer.
    """
    monkeypatch.setattr(random, "uniform", lambda least, _: least)
    url, answers, given = proxy
    answers.append((*BUSY, 0.8))
    with contextlib.closing(Scheduler(url, timeout=3.0)) as client, pytest.raises(StoreError, match="busy") as caught:
        client.cancel("k")
    assert (caught.value.is_transient, caught.value.is_unknown) == (True, False)
    assert len(given) > 1


def test_a_moment_without_the_service(proxy):
    """
    If the service is unreachable for a moment, a read is repeated until it is answered.
    """
    url, answers, given = proxy
    answers += [LOST, GONE, (200, "application/json", b'{"shards": [], "owner": "o", "nodes": []}')]
    with contextlib.closing(Scheduler(url, timeout=10.0)) as client:
        assert list(client.shards()) == []
    assert given == [502, 504, 200]


@pytest.mark.parametrize(
    "answer",
    [
        (500, "text/html; charset=utf-8", b"caf\xe9"),
        (500, "application/json", b'"no"'),
        (500, "application/json", b"null"),
        (200, "text/html", b"caf\xe9"),
        (200, "application/json; gzip", b"no gzip"),
        (200, "application/json", b'{"status": "ok"}'),
        (200, "application/json", b"[]"),
        (200, "text/plain", b"hello"),
        (200, "application/json", b"[" * 100_000),
        (304, "application/json", b""),
    ],
)
def test_unusable_answers(proxy, answer):
    """
    If a proxy's answer is not in the form of the API, the client raises a `StoreError`.
    """
    url, answers, _ = proxy
    answers.append(answer)
    with contextlib.closing(Scheduler(url, timeout=0.5)) as client:
        for ask in (lambda: client.get("k"), client.list, lambda: client.set("k", delay=1, target="log")):
            with pytest.raises(StoreError):
                ask()


def test_the_address_of_another_server(proxy):
    """
    If the server at the address is not a tickwheel service, the error says so, and the request is not repeated.
    """
    url, answers, _ = proxy
    answers += [(404, "application/json", b'{"message": "no route"}'), (200, "application/json", b'{"status": "ok"}')]
    with contextlib.closing(Scheduler(url, timeout=10)) as client:
        with pytest.raises(StoreError, match="status 404 without a problem: is this") as caught:
            client.get("k")
        assert not caught.value.is_transient
        with pytest.raises(StoreError, match="answers without 'outcome': is this the right address"):
            client.set("k", delay=1, target="log")
