"""
Every documented operation is tried without a token, and with a wrong token, a read token and a write token.
"""

from __future__ import annotations

import resource
import socket

import pytest

READ, WRITE = "r" * 40, "w" * 40
TOKENS = {"no": None, "wrong": "x" * 40, "read": READ, "write": WRITE}
OPEN = {"/healthz", "/readyz"}
IDLE = 10_000
QUERIES = {"schedules_next": "?every=60"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory, server):
    """
    Return a server with a read and a write token.
    """
    environment = {"TICKWHEEL_READ_TOKEN": READ, "TICKWHEEL_WRITE_TOKEN": WRITE}
    guarded = type(server)(tmp_path_factory.mktemp("guarded"), environment=environment)
    yield guarded
    assert guarded.stop() == 0


def status_of(server, method: str, path: str, body, token: str | None) -> int:
    """
    Send a request, and return only the status of the answer, without reading the body.
    """
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if path != "/v1/live":
        return server.ask(method, path, body, headers).status
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers.items())
    with socket.create_connection((server.host, server.port), timeout=30) as connection:
        connection.sendall(f"{head}\r\n".encode())
        return int(connection.recv(100).split()[1])


def test_every_operation_with_every_token(document, bodies, guarded):
    """
    Without a valid token, every operation returns a 401.

    With a read token, operations that write or that are internal return a 403. All other requests succeed.
    """
    table = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = operation["operationId"]
            address = path.replace("{key}", "a") + QUERIES.get(name, "")
            body = bodies.get(name)
            for name, token in TOKENS.items():
                table[method, path, name] = status_of(guarded, method.upper(), address, body, token)
    print(*(f"{status} {' '.join(place)}" for place, status in table.items()), sep="\n")  # noqa: T201  the table itself
    assert len(table) >= 4 * 25
    for (method, path, name), status in table.items():
        if path in OPEN:
            assert status == 200, (method, path, name)
        elif name in ("no", "wrong"):
            assert status == 401, (method, path, name)
        elif name == "read" and (method != "get" or path.startswith("/debug/")):
            assert status == 403, (method, path, name)
        else:
            assert status in (200, 201, 404, 409), (method, path, name)


def test_page_files_hold_no_data(guarded):
    """
    The page, its files and the API's document need no token.

    All other addresses outside the API need a token.
    """
    for path in ("/", "/static/main.js", "/openapi.json", "/problems/unauthorized"):
        assert guarded.ask("GET", path).status == 200
    for path in ("/nothing", "/v1/nothing", "/static", "/debug/stacks"):
        assert guarded.ask("GET", path).status == 401


def test_idle_connections(start):
    """
    Thousands of idle connections do not delay requests and use little memory.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(IDLE, hard - 200)
    if wanted < 1_000:
        pytest.skip(f"this process may only open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 200), hard))
    server = start()
    before = memory_kib(server.process.pid)
    idle = [socket.create_connection((server.host, server.port), timeout=30) for _ in range(wanted)]
    try:
        assert server.job("PUT", "served", {"delay": 3600, "target": "log"}).status == 201
        assert (memory_kib(server.process.pid) - before) / wanted < 20
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.job("GET", "served").status == 200


def memory_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:  # noqa: PTH123 a file of /proc
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    except FileNotFoundError:
        pytest.skip("this system has no /proc to read a process's memory from")
