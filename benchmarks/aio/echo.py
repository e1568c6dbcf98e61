"""
An echo server with a timeout for every request, and its client.

They use many connections on loopback.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.aio.client import allow_files
from benchmarks.model import Measure

__all__ = ["CONDITIONS", "run"]

LIMIT_S = 30.0
CLIENT = Path(__file__).with_name("client.py")

CONDITIONS = {
    "echo": (
        "a server that answers each 64 bytes with the same, on so many connections as are pending; for each request it "
        "cancels the connection's 30 s timer and sets a new one; the client is another process, which keeps one "
        "request under way on each connection"
    ),
    "echo, cpu per request": "the CPU time of the server's process over the same requests",
}


class Echo(asyncio.Protocol):
    """
    A connection that echoes data.

    It closes after a long silence.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, served: list[int]) -> None:
        self._loop = loop
        self._served = served

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._timer = self._loop.call_later(LIMIT_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._timer.cancel()
        self._transport.write(data)
        self._timer = self._loop.call_later(LIMIT_S, self._transport.abort)
        self._served[0] += 1

    def connection_lost(self, _error: Exception | None) -> None:
        self._timer.cancel()


def run(loop: asyncio.AbstractEventLoop, connections: int, requests: int, found: list[Measure]) -> None:
    """
    Serve in this process until the client has received all its answers.
    """
    allow_files(connections)
    rate, cpu = loop.run_until_complete(serve(loop, connections, requests))
    found.append(Measure("echo", rate, "per second", "wall"))
    found.append(Measure("echo, cpu per request", cpu, "ns", "cpu"))


async def serve(loop: asyncio.AbstractEventLoop, connections: int, requests: int) -> tuple[float, float]:
    """
    Return the number of requests per second, and the CPU nanoseconds per request.
    """
    served = [0]
    server = await loop.create_server(lambda: Echo(loop, served), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    command = [sys.executable, str(CLIENT), str(port), str(connections), str(requests)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220 - its pipe is read by the loop below
    pipe = client.stdout
    assert pipe is not None
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    loop.add_reader(pipe.fileno(), lambda: lines.put_nowait(pipe.readline()))
    try:
        assert (await lines.get()).strip() == b"warm"
        before, wall, cpu = served[0], time.perf_counter_ns(), time.process_time_ns()
        assert (await lines.get()).strip() == b"done"
        count = served[0] - before
        wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    finally:
        loop.remove_reader(pipe.fileno())
        pipe.close()
        client.wait()
        server.close()
    return count / wall * 1e9, cpu / count
