"""
Under gevent, stores and services are called in system threads.

So a waiting greenlet lets other greenlets run.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from libraries import needs_libraries
from processes import free_port, wait_until_up
from redis_servers import RedisCluster, RedisSentinels

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


@pytest.fixture
def tls(make_redis, certificate):
    """
    Return the URL of a store on a server that uses TLS.
    """
    cert, key = certificate()
    port, settings = free_port(), ("--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
    make_redis("--tls-port", port, *settings)
    return f"rediss://127.0.0.1:{port}/0?lease_s=2&ssl_ca_certs={cert}"


@pytest.fixture(params=["cluster", "sentinels"])
def group(request, make_redis):
    """
    Return servers that form one store: a cluster, or a group with sentinels.
    """
    group = RedisCluster(make_redis) if request.param == "cluster" else RedisSentinels(make_redis)
    yield group
    group.stop()


def check(order: str, url: str) -> None:
    """
    Let many greenlets call a scheduler on *url* at once, and check that it keeps its leases, fires and stops.

    *order* says whether tickwheel is imported before or after gevent patches the process.
    """
    command = [sys.executable, "-W", "ignore", str(APP), order, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.stdout.splitlines(), done.returncode) == (["server True"], 0), done.stderr[-3_000:]


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("redis", [1, 3], indirect=True, ids=["whole", "partitions"])
def test_a_store_of_redis(redis, order):
    """
    A scheduler on Redis, partitioned or not, keeps its leases.

    This holds whether tickwheel is imported before or after gevent patches the process.
    """
    check(order, redis)


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_service(service, order):
    """
    Under gevent, a client of a service can set, read and pull jobs, and report the results of pulled jobs.
    """
    check(order, service)


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_store_of_redis_by_tls(tls, order):
    """
    A scheduler on a server that uses TLS keeps its leases.
    """
    check(order, tls)


@needs_libraries("gevent", "httpx", "redis")
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_store_of_several_servers(group, order):
    """
    If a cluster, or a group with sentinels, loses its primary, the scheduler finds the replica, and its jobs fire.
    """
    check(order, f"{group.url}lease_s=2")
    command = [sys.executable, "-W", "ignore", str(APP), order, f"{group.url}lease_s=2&prefix=lost", "failover"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as app:
        assert app.stdout.readline() == "up\n", app.stderr.read()[-3_000:]
        group.fail_over(is_replicated=True)
        found, errors = app.communicate("lost\n", PATIENCE_S)
    assert (found, app.returncode) == ("failover True\n", 0), errors[-3_000:]
