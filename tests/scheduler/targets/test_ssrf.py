"""
No webhook reaches an internal address, for any form of the URL and any result of a name lookup.

Real servers listen on loopback addresses, and the tests resolve names with their own table. "Outside" is the allowed
address 127.0.0.2. "Inside" is 127.0.0.1 and ::1.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tickwheel.scheduler import DeadLetter, Firing, InvalidJobError, Job
from tickwheel.targets.webhook import WebhookError, WebhookTarget

pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install 'tickwheel[webhook]'")

INSIDE, INSIDE_6, OUTSIDE = "127.0.0.1", "::1", "127.0.0.2"
LOOK_UP = socket.getaddrinfo


class Answering(BaseHTTPRequestHandler):
    """
    The handler of one request.
    """

    def do_POST(self):
        """
        Record the address at which the request arrived, and give the server's answer.
        """
        self.rfile.read(int(self.headers["content-length"]))
        self.server.reached.append(self.headers["host"])
        status, headers = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """
    A server at one address that counts all connections, even those without a request.
    """

    daemon_threads = True

    def __init__(self, address, port=0):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.reached, self.connections = [], 0
        self.answer = (204, {})
        super().__init__((address, port), Answering)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def get_request(self):
        """
        Count the connection.
        """
        self.connections += 1
        return super().get_request()

    def stop(self):
        """
        Stop the server.
        """
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def servers():
    """
    Return the outside server and the two inside servers, all with the same port.
    """
    made = [Server(INSIDE)]
    port = made[0].server_address[1]
    try:
        made += [Server(INSIDE_6, port), Server(OUTSIDE, port)]
    except OSError as error:
        made[0].stop()
        pytest.skip(f"this machine has no {error}: 127.0.0.2 and ::1 are needed")
    yield made[2], made[:2], port
    for each in made:
        each.stop()


@pytest.fixture
def names(monkeypatch):
    """
    Return a table that maps host names to the answers of a name lookup.

    If a name has a list of answers, each lookup takes the next answer. The last answer is repeated.
    """
    table = {}

    def look_up(host, port, *args, **kwargs):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in table:
            return LOOK_UP(host, port, *args, **kwargs)
        answers = table[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port, 0, 0) if ":" in address else (address, port),
            )
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return table


def send(*urls):
    """
    Send a webhook to each of *urls*, one after another, and return the answers and errors.
    """
    target = WebhookTarget(allow=[OUTSIDE], timeout_s=5)

    async def send_all():
        found = []
        for url in urls:
            firing = Firing(Job("key", 1, 1000, b"{}", "webhook", url), 1, time.time() * 1000)
            try:
                found.append(await target.resolve(url).function(firing))
            except (WebhookError, InvalidJobError) as error:
                found.append(error)
        await target.close()
        return found

    return asyncio.run(send_all())


def test_the_outside_is_reached(servers, names):
    """
    A webhook reaches the outside server by a name that resolves to its address.

    This shows that the table of names and the servers of the tests work.
    """
    outside, insides, port = servers
    names["shop.test"] = [[OUTSIDE]]
    assert send(f"http://shop.test:{port}/") == [None]
    assert outside.reached == [f"shop.test:{port}"]
    assert [each.connections for each in insides] == [0, 0]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "0177.0000.0000.0001",
        "017700000001",
        "0",
        "0.0.0.0",  # noqa: S104 nobody binds
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020\u30020\u30021",
        "\u2460\u2461\u2466.0.0.1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::]",
        "[fe80::1%25lo]",
        "[fe80::5efe:7f00:1]",
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "2852039166",
        "metadata.google.internal",
        "inside@127.0.0.1",
    ],
)
def test_no_spelling_leads_inside(servers, names, host):
    """
    No spelling or wrapping of an inside address reaches the inside servers.

    The job becomes a dead letter, or its attempt fails.
    """
    _, insides, port = servers
    names["metadata.google.internal"] = [["169.254.169.254"]]
    (answer,) = send(f"http://{host}:{port}/")
    assert isinstance(answer, DeadLetter | WebhookError | InvalidJobError)
    assert [each.connections for each in insides] == [0, 0]


@pytest.mark.parametrize("address", [INSIDE, INSIDE_6, "::ffff:127.0.0.1", "0.0.0.0", "::", "169.254.169.254"])  # noqa: S104 nobody binds
def test_no_name_leads_inside(servers, names, address):
    """
    A public name that resolves to an inside address is not called.

    The job becomes a dead letter with the reason.
    """
    _, insides, port = servers
    names["evil.test"] = [[address]]
    (answer,) = send(f"http://evil.test:{port}/")
    assert isinstance(answer, DeadLetter)
    assert "is not a public one: allow its network" in answer.reason
    assert [each.connections for each in insides] == [0, 0]


def test_rebinding(servers, names):
    """
    If a name resolves to an outside address first, and then to an inside address, each lookup is checked.

    The connection uses the checked address.
    """
    outside, insides, port = servers
    names["rebind.test"] = [[OUTSIDE], [INSIDE]]
    outside.answer = (204, {"connection": "close"})
    first, *later = send(*[f"http://rebind.test:{port}/"] * 4)
    assert first is None
    assert all(isinstance(each, DeadLetter) for each in later)
    assert len(outside.reached) == 1
    assert [each.connections for each in insides] == [0, 0]


def test_several_addresses(servers, names):
    """
    If a name has several addresses, only the outside addresses are tried, whatever their order.
    """
    outside, insides, port = servers
    names["both.test"] = [[INSIDE, OUTSIDE]]
    names["six.test"] = [[INSIDE_6, OUTSIDE]]
    names["other.test"] = [[OUTSIDE, INSIDE, INSIDE_6]]
    send(f"http://both.test:{port}/", f"http://six.test:{port}/", f"http://other.test:{port}/")
    assert outside.reached
    assert [each.connections for each in insides] == [0, 0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:{port}/", "http://[::1]:{port}/", "//127.0.0.1:{port}/", "gopher://127.0.0.1"]
)
def test_redirects(servers, names, status, to):
    """
    A redirect is a failed attempt, and is not followed.
    """
    outside, insides, port = servers
    names["shop.test"] = [[OUTSIDE]]
    outside.answer = (status, {"location": to.format(port=port)})
    (answer,) = send(f"http://shop.test:{port}/")
    assert isinstance(answer, WebhookError)
    assert str(status) in str(answer)
    assert [each.connections for each in insides] == [0, 0]


def test_proxies_of_the_environment_are_not_used(servers, names, monkeypatch):
    """
    A proxy in the environment is not used, because the proxy itself may reach inside addresses.
    """
    outside, insides, port = servers
    monkeypatch.setenv("HTTP_PROXY", f"http://{INSIDE}:{port}")
    monkeypatch.setenv("http_proxy", f"http://{INSIDE}:{port}")
    names["shop.test"] = [[OUTSIDE]]
    assert send(f"http://shop.test:{port}/") == [None]
    assert len(outside.reached) == 1
    assert [each.connections for each in insides] == [0, 0]
