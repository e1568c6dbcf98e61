"""
Redis servers that log their commands, in temporary folders.

Each runs for the duration of a case.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import redis

__all__ = ["MASTERS", "redis_cluster", "redis_partitions", "redis_server"]

MASTERS: Final = 3
_PATIENCE_S: Final = 60.0


@contextmanager
def redis_server() -> Iterator[tuple[str, list[int]]]:
    """
    Start a server. Yield the URL of an empty database, and the server's process id in a list.

    The server is stopped at the end.
    """
    with _server() as (port, pid):
        yield f"redis://127.0.0.1:{port}/0", [pid]


@contextmanager
def redis_cluster() -> Iterator[tuple[str, list[int]]]:
    """
    Start a cluster of three masters. Yield its URL and the process ids.

    The cluster is stopped at the end.
    """
    with ExitStack() as stack:
        own = ("--cluster-enabled", "yes")
        servers = [stack.enter_context(_server(*own, "--cluster-port", f"{_free_port()}")) for _ in range(MASTERS)]
        hosts = [f"127.0.0.1:{port}" for port, _ in servers]
        command = ["redis-cli", "--cluster", "create", *hosts, "--cluster-yes"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_PATIENCE_S)
        give_up = time.monotonic() + _PATIENCE_S
        while not all(_is_whole(port) for port, _ in servers):
            if time.monotonic() > give_up:
                message = "the masters have not found each other"
                raise RuntimeError(message)
            time.sleep(0.05)  # no signal reports that the servers have found each other
        yield f"redis+cluster://{','.join(hosts)}", [pid for _, pid in servers]


@contextmanager
def redis_partitions() -> Iterator[tuple[str, list[int]]]:
    """
    Start the same cluster as `redis_cluster`, for a store with a partition on each master.
    """
    with redis_cluster() as (url, processes):
        yield f"{url}?partitions={MASTERS}", processes


@contextmanager
def _server(*settings: str) -> Iterator[tuple[int, int]]:
    """
    Start a server with *settings*. Yield its port and its process id.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        port = _free_port()
        own = ("--dir", folder, "--bind", "127.0.0.1", "--port", f"{port}", "--appendonly", "yes", "--save", "")
        process = subprocess.Popen(["redis-server", *own, *settings], stdout=subprocess.DEVNULL)
        try:
            _wait_for(port, process)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with redis.Redis(port=port) as client:
                client.ping()
        except redis.ConnectionError:
            if process.poll() is not None or time.monotonic() > give_up:
                raise
            time.sleep(0.05)  # no signal reports that the server is up
        else:
            return


def _is_whole(port: int) -> bool:
    with redis.Redis(port=port, decode_responses=True) as client:
        facts = client.execute_command("CLUSTER INFO")
    return (facts["cluster_state"], facts["cluster_known_nodes"]) == ("ok", f"{MASTERS}")


def _free_port() -> int:
    """
    Return a port on which no process listens.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
