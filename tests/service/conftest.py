"""
Fixtures of the service's tests: a real server in its own process, on a free port with a new database.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import forked_cli
import pytest

TOKEN = "w" * 40
START_S = STOP_S = PATIENCE_S = 60


@dataclass
class Answer:
    """
    The status, headers and body of an answer.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Live:
    """
    A stream of server-sent events. A test can wait for an event on this stream.
    """

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def event(self) -> tuple[str, Any]:
        """
        Return the next event's name and data.
        """
        name = self._answer.readline().decode().removeprefix("event: ").strip()
        data = json.loads(self._answer.readline().decode().removeprefix("data: "))
        assert self._answer.readline() == b"\n"
        return name, data

    def firing(self, key: str, outcome: str) -> Any:
        """
        Wait for a firing of *key* that ended with *outcome*.
        """
        while True:
            name, data = self.event()
            for firing in data["firings"] if name == "firings" else ():
                if (firing["key"], firing["outcome"]) == (key, outcome):
                    return firing


class Server:
    """
    A running `tickwheel serve`, with methods that send requests to it.
    """

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.process = forked_cli.start(
            ["serve", "--port", "0", *arguments],
            cwd=folder,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "TICKWHEEL_STOP_TIMEOUT": "1.5"} | dict(environment or {}),
        )
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._news: queue.Queue[str | None] = queue.Queue()
        self._unread: list[str] = []
        is_json = "--log-json" in arguments  # with this option all output is on stderr
        tell = [self._news.put, lambda _line: None]
        said, logged = reversed(tell) if is_json else tell
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines, said)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.errors, logged)),
        ]
        for reader in self._readers:
            reader.start()
        try:
            line = self.line_with('"page"' if is_json else "page ")
        except BaseException:
            self.stop(signal.SIGKILL)
            raise
        self.host, self.port = re.search(r"https?://([\w.]+):(\d+)/", line).groups()
        self.port = int(self.port)

    @staticmethod
    def _read(stream: Any, lines: list[str], tell: Any) -> None:
        with stream:
            for line in stream:
                lines.append(line)
                tell(line)
        tell(None)

    def line_with(self, text: str, timeout: float = START_S) -> str:
        """
        Wait for a line on the console that contains *text*, and return it. Each line is returned once.
        """
        for place, line in enumerate(self._unread):
            if text in line:
                return self._unread.pop(place)
        while True:
            line = self._news.get(timeout=timeout)
            assert line is not None, f"the server ended without {text!r}: {''.join(self.errors)}"
            if text in line:
                return line
            self._unread.append(line)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        raw: bytes | None = None,
    ) -> Answer:
        """
        Send one request on a new connection.

        Args:
            method: The method, sent unchanged.
            path: The path, percent-encoded already and sent unchanged.
            body: The document to send as JSON.
            headers: Headers in addition to those of a JSON body.
            raw: Bytes to send unchanged instead of *body*.
        """
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        sent = ({} if data is None else {"content-type": "application/json"}) | dict(headers or {})
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)) as connection:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def job(
        self, method: str, key: str, body: Any = None, headers: Mapping[str, str] | None = None, action: str = ""
    ) -> Answer:
        """
        Send one request about the job *key*.
        """
        return self.ask(method, f"/v1/jobs/{quote(key, safe='')}{action}", body, headers)

    @contextlib.contextmanager
    def live(self, headers: Mapping[str, str] | None = None) -> Iterator[Live]:
        """
        Open the live stream of firings and figures.
        """
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)) as connection:
            connection.request("GET", "/v1/live", headers=dict(headers or {}))
            with connection.getresponse() as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                yield Live(answer)

    def stop(self, number: int = signal.SIGINT) -> int:
        """
        Send a signal to the server and return its exit code.
        """
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            for reader in self._readers:
                reader.join(STOP_S)


@pytest.fixture
def start(tmp_path) -> Iterator[Any]:
    """
    Return a function that starts a server in the test's folder.

    The fixture stops all servers at the end.
    """
    with contextlib.ExitStack() as stack:

        def start_server(
            *arguments: str, folder: Path = tmp_path, environment: Mapping[str, str] | None = None
        ) -> Server:
            server = Server(folder, *arguments, environment=environment)
            stack.callback(server.stop)
            return server

        yield start_server


@pytest.fixture(scope="session")
def deployment() -> Any:
    """
    Return the module that reads the files in `deploy/`.
    """
    pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    import deployment  # noqa: PLC0415  it needs PyYAML

    return deployment


@pytest.fixture
def start_node(deployment, start, tmp_path, postgres_url) -> Callable[..., Server]:
    """
    Return a function that starts a named node.

    The node has the same options as the containers of `deploy/`, but a free port.
    """
    store = f"{postgres_url}&shards=6&lease_s=2"
    arguments, environment = deployment.node_start({"TICKWHEEL_STORE": store, "TICKWHEEL_WRITE_TOKEN": TOKEN})

    def start_one(name: str, port: int = 0) -> Server:
        (folder := tmp_path / name).mkdir(exist_ok=True)
        return start(*arguments, "--port", str(port), folder=folder, environment=environment)

    return start_one


@pytest.fixture
def nodes(start_node) -> list[Server]:
    """
    Return three nodes that can run behind nginx.
    """
    return [start_node(name) for name in ("a", "b", "c")]


@pytest.fixture
def proxy(deployment, nodes, tmp_path, own_certificate, until) -> Iterator[Any]:
    """
    Return a running nginx with the configuration of `deploy/`.

    It forwards requests to the nodes.
    """
    ports = [node.port for node in nodes]
    with contextlib.closing(deployment.Proxy(tmp_path, own_certificate, ports, TOKEN)) as proxy:
        until(proxy.is_ready)
        yield proxy


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    """
    Return a scheduler that is a client of the service.

    All tests of a module share it.
    """
    from tickwheel.scheduler import Scheduler  # noqa: PLC0415  not before a test needs it

    with contextlib.closing(Scheduler(f"http://{server.host}:{server.port}")) as client:
        yield client


@pytest.fixture(scope="session")
def own_certificate(certificate) -> tuple[str, str]:
    """
    Return the paths of a certificate and of its key.

    All tests share them.
    """
    return certificate()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    """
    Return one server for all tests of a module, with the handlers of `service_handlers.py`.
    """
    server = Server(tmp_path_factory.mktemp("served"), "--handlers", "service_handlers", environment=HANDLERS)
    try:
        yield server
    finally:
        code = server.stop()
    assert code == 0
    assert not [line for line in server.errors if "Traceback" in line]


@pytest.fixture(scope="module")
def document(server) -> Any:
    """
    Return the OpenAPI document of the service.
    """
    answer = server.ask("GET", "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return answer.json


@pytest.fixture(scope="module")
def bodies(document) -> dict[str, Any]:
    """
    Return the example body of each operation that has a body. The wait for jobs is set to zero.
    """
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    return {
        operation["operationId"]: example | {"wait": 0} if "wait" in example else example
        for operation in operations
        if "requestBody" in operation
        for example in [operation["requestBody"]["content"]["application/json"]["example"]]
    }


HANDLERS = {"PYTHONPATH": str(Path(__file__).parent)}
