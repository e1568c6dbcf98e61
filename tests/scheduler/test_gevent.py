"""
Under gevent, stores and services are asked in threads of the system, and greenlets that wait let the others run.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from libraries import needs_libraries
from processes import free_port, wait_until_up

PATIENCE_S = 60.0
NUMBERS = itertools.count()
APP = Path(__file__).parents[1] / "drivers" / "gevent_app.py"


@pytest.fixture
def service(tmp_path):
    """
    Return the address of a service that fires, in a process without gevent.
    """
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-c", "from tickwheel.cli import main; main()", "serve", "--store", "memory://"]
    with (
        log.open("w") as file,
        subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path, stdout=file, stderr=file) as server,
    ):
        try:
            wait_until_up(server, log, lambda: "fires memory" in log.read_text())
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


@pytest.fixture
def redis(redis_server, request):
    """
    Return the URL of an empty store.
    """
    return redis_server.url(f"?prefix=gevent-{next(NUMBERS)}&lease_s=2&partitions={request.param}")


def check(order: str, url: str) -> None:
    """
    Let a scheduler of *url* be asked by many greenlets at once, keep its leases, fire, and stop.
    """
    command = [sys.executable, "-W", "ignore", str(APP), order, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout.splitlines(), done.returncode) == (["server True"], 0), done.stderr[-3_000:]


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("redis", [1, 3], indirect=True, ids=["whole", "partitions"])
def test_a_store_of_redis(redis, order):
    """
    A store on a server keeps its leases, whole or in partitions, imported before gevent patches the process or after.
    """
    check(order, redis)


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_service(service, order):
    """
    A client of a service sets, asks, pulls and reports.
    """
    check(order, service)
