"""
If a URL promises TLS but the server has none, the client sends the beginning of a handshake and then disconnects.

The test's server greets like a real server without TLS, and records all data that it receives.
"""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from tickwheel.errors import TickwheelError
from tickwheel.scheduler import Firing, Job, Snooze
from tickwheel.stores import open_store
from tickwheel.targets import make_target

SECRET = "s3cret-word"  # noqa: S105  it is looked for on the wire
CARD = "4111-1111"
NATS = b'INFO {"server_id":"X","version":"2.9.10","max_payload":1048576,"proto":1,"headers":true,"jetstream":true}\r\n'
GREETINGS = {"tls": NATS}


class Plain:
    """
    A server without TLS on the loopback, and the data that it has received.
    """

    def __init__(self, greeting):
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sent = bytearray()
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with end:
                end.settimeout(5)
                try:
                    end.sendall(self._greeting)
                    while data := end.recv(65536):
                        self.sent += data
                        end.sendall(self._answer(data))
                except OSError:
                    """The client has gone."""

    @staticmethod
    def _answer(data):
        if b"PING\r\n" in data:
            return b"PONG\r\n"
        return b"N" if data[4:8] == b"\x04\xd2\x16/" else b"+OK\r\n"  # PostgreSQL's "no" to a request for TLS

    def close(self):
        """
        Stop the server.
        """
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def plain(request):
    """
    Return a server without TLS that greets as a real server of the URL scheme does.
    """
    made = Plain(GREETINGS.get(request.node.callspec.params["url"].partition(":")[0], b""))
    yield made
    made.close()


TARGETS = {
    "tls://tick:{secret}@127.0.0.1:{port}?timeout_s=2": "nats",
    "amqps://tick:{secret}@127.0.0.1:{port}/?timeout_s=2": "aio_pika",
    "rediss://:{secret}@127.0.0.1:{port}/0?timeout_s=2": "redis",
    "kafka://127.0.0.1:{port}?security.protocol=SASL_SSL&sasl.mechanism=PLAIN&sasl.username=tick"
    "&sasl.password={secret}&timeout_s=1&log_level=0": "confluent_kafka",
    "celery+rediss://:{secret}@127.0.0.1:{port}/0?timeout_s=2&ssl_cert_reqs=required": "celery",
    "celery+amqps://tick:{secret}@127.0.0.1:{port}/?timeout_s=2": "celery",
    "rq+rediss://:{secret}@127.0.0.1:{port}/0?timeout_s=2": "rq",
    "dramatiq+rediss://:{secret}@127.0.0.1:{port}/0?timeout_s=2": "dramatiq",
    "webhook:?allow=127.0.0.1&timeout_s=2": "aiohttp",
}


@pytest.mark.parametrize(("url", "library"), TARGETS.items(), ids=[url.partition(":")[0] for url in TARGETS])
def test_targets(plain, url, library):
    """
    No target sends a password or a payload to a server without TLS.

    The job waits.
    """
    pytest.importorskip(library, reason=f"{library} is not installed")
    target = make_target(url.format(secret=SECRET, port=plain.port))
    handler = f"https://127.0.0.1:{plain.port}/" if url.startswith("webhook") else "tasks.note"
    payload = b'{"args":["%s"]}' % CARD.encode()
    firing = Firing(Job("one", 1, 0, payload, handler=handler), 1, 0.0)

    async def send():
        try:
            return await target.resolve(handler).function(firing)
        finally:
            await target.close()

    answer = asyncio.run(send())
    assert isinstance(answer, Snooze)
    assert SECRET not in answer.reason
    assert plain.connections
    assert SECRET.encode() not in plain.sent
    assert CARD.encode() not in plain.sent


STORES = {
    "rediss://:{secret}@127.0.0.1:{port}/0": "redis",
    "postgresql://tick:{secret}@127.0.0.1:{port}/jobs?sslmode=require": "psycopg",
    "postgresql://tick:{secret}@127.0.0.1:{port}/jobs?sslmode=verify-full": "psycopg",
}


@pytest.mark.parametrize(("url", "library"), STORES.items(), ids=["redis", "postgres", "verified"])
def test_stores(plain, url, library):
    """
    No store sends a password or data to a server without TLS.
    """
    pytest.importorskip(library, reason=f"{library} is not installed")
    with pytest.raises((TickwheelError, OSError)) as caught:
        open_store(url.format(secret=SECRET, port=plain.port))
    assert SECRET not in str(caught.value)
    assert plain.connections
    assert SECRET.encode() not in plain.sent
