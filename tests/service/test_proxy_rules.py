"""
The rules for a load balancer in `docs/production.md`.

They are tested with the nginx configuration of `deploy/` and with faulty nodes.
"""

from __future__ import annotations

import contextlib
import http.server
import re
import threading

import pytest
from processes import find

from tickwheel.host.pulls import WAIT_MAX_S
from tickwheel.service import ServiceOptions

pytestmark = pytest.mark.skipif(find("nginx") is None, reason="nginx is not installed: make servers")
LARGE = ServiceOptions().batch_bytes_max


class Node(http.server.BaseHTTPRequestHandler):
    """
    A node that records each request, and that fails when the test says so.
    """

    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle_one_request(self):
        """
        Close the connection after each request, like a node that is stopping.
        """
        super().handle_one_request()
        self.close_connection = True

    def answer(self):
        """
        Record the request, and then answer it or fail.

        The stream is answered in two parts.
        """
        test = self.server.test
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with test.lock:
            test.seen.append((self.command, self.path, self.headers["host"], len(body)))
            fault = test.faults.pop() if test.faults else 200
        if fault == "silent":
            return
        self.send_response(fault)
        self.send_header("connection", "close")
        if self.path != "/v1/live":
            self.send_header("content-length", "0")
        self.end_headers()
        if self.path == "/v1/live":
            self.wfile.write(b"first\n")
            assert test.go_on.wait(60)
            self.wfile.write(b"second\n")

    do_GET = do_PUT = do_DELETE = do_POST = do_PATCH = answer  # noqa: N815  names of the standard library

    def log_message(self, *_):
        """
        Write no log.
        """


class Nodes:
    """
    Three nodes, the requests that they received, and the faults for the next requests.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = []
        self.faults = []
        self.go_on = threading.Event()
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Node) for _ in range(3)]
        for server in self.servers:
            server.test = self
            threading.Thread(target=server.serve_forever, args=(0.05,)).start()

    def ports(self):
        return [server.server_port for server in self.servers]

    def close(self):
        self.go_on.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()


@pytest.fixture
def failing():
    with contextlib.closing(Nodes()) as nodes:
        yield nodes


@pytest.fixture
def proxy(deployment, failing, tmp_path, own_certificate, until):
    """
    Return a running nginx that forwards requests to the nodes.
    """
    with contextlib.closing(deployment.Proxy(tmp_path, own_certificate, failing.ports(), "")) as proxy:
        until(proxy.is_ready)
        failing.seen.clear()
        yield proxy


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
@pytest.mark.parametrize("fault", ["silent", 503])
def test_which_requests_go_to_the_next_node(failing, proxy, method, fault):
    """
    If a node closes the connection without an answer, or answers with a 503, the next node gets the request.

    A `POST` or `PATCH` is never sent to another node.
    """
    is_repeated = method not in {"POST", "PATCH"}
    failing.faults += [fault]
    with proxy(method, "/v1/jobs/k") as answer:
        assert answer.status == (200 if is_repeated else 502 if fault == "silent" else 503)
    assert [sent for sent, *_ in failing.seen] == [method] * (1 + is_repeated)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_node_that_is_gone(failing, proxy, method):
    """
    If a node does not accept connections, the next node gets the request, whatever its method.
    """
    failing.servers[0].shutdown()
    failing.servers[0].server_close()
    for _ in failing.servers:
        with proxy(method, "/v1/jobs/k") as answer:
            assert answer.status == 200
    assert len(failing.seen) == len(failing.servers)


def test_which_requests_pass_the_proxy(failing, proxy):
    """
    A batch of the maximum size and a stream pass the proxy. Requests for the metrics of a single node do not pass.
    """
    with proxy("POST", "/v1/jobs:batch", "x" * (LARGE - 2)) as answer:
        assert answer.status == 200
    assert failing.seen == [("POST", "/v1/jobs:batch", f"127.0.0.1:{proxy.port}", LARGE)]
    failing.seen.clear()
    with proxy("GET", "/v1/live") as answer:
        assert answer.readline() == b"first\n"
        failing.go_on.set()
        assert answer.read() == b"second\n"
    failing.seen.clear()
    for path in ("/metrics", "/internal/pull", "/internal/firings"):
        with proxy("GET", path) as answer:
            assert answer.status == 404
    assert failing.seen == []


def test_the_limits_of_the_proxy(deployment):
    """
    The proxy waits longer for an answer than the longest poll of a worker takes.

    The documentation states the same limits.
    """
    (wait_s,) = re.findall(r"proxy_read_timeout (\d+)s", deployment.SITE)
    (size,) = re.findall(r"client_max_body_size (\d+)m", deployment.SITE)
    assert int(wait_s) > WAIT_MAX_S
    assert int(size) << 20 == LARGE
    said = (deployment.FOLDER.parent / "docs" / "production.md").read_text("utf-8")
    assert f"longer than a worker waits for work: {wait_s} s" in said
    assert f"bodies of {size} MiB" in said
