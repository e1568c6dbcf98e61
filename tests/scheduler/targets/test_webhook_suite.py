"""
The webhook target passes the same suite as the brokers' targets, with a real receiver.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from outages import LongOutage

from tickwheel.targets.webhook import WebhookTarget
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire

pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'tickwheel[webhook]'")

BODY_MAX = 500_000


class Keeping(BaseHTTPRequestHandler):
    """
    A request handler that records the requests, except those that are too large.
    """

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """
        Read the request, record it, and answer.
        """
        body = self.rfile.read(int(self.headers["content-length"]))
        status = 413 if len(body) > BODY_MAX else 503 if self.server.is_full else 204
        if status == 204:
            self.server.kept.append(
                Received(self.headers["webhook-id"], self.headers["tickwheel-fire-id"], json.loads(body)["value"])
            )
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def receiver(cut):
    """
    Return a listening receiver behind a proxy.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
    server.daemon_threads = True
    server.kept = []
    server.is_full = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    class Receiver(cut):
        secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  the specification's example

        def __init__(self, wire):
            super().__init__(wire)
            self.handler = f"http://127.0.0.1:{wire.port}/hook"

        def make_target(self):
            """
            Return a target that may reach the receiver.
            """
            return WebhookTarget(secrets=[f"whsec_{self.secret}"], allow=["127.0.0.1"])

        def fill(self):
            """
            Answer every request with 503.
            """
            server.is_full = True

        def make_room(self):
            """
            Accept every request.
            """
            server.is_full = False

        def received(self):
            return list(server.kept)

    made = Receiver(Wire(server.server_address[1]))
    yield made
    made.wire.close()
    server.shutdown()
    thread.join()
    server.server_close()


class TestWebhook(LongOutage, TargetSuite):
    """
    The suite of targets, with webhooks.
    """

    library, extra = "aiohttp", "webhook"
    bad_handlers = ("", "no url", "ftp://example.com/", "http://")
    takes_largest = False
    connections_at_once = 100  # the target's maximum number of requests to one receiver at a time

    @pytest.fixture(autouse=True)
    def _receiver(self, receiver):
        self.make_receiver = lambda: receiver
