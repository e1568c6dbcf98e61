"""
The client: `python -m benchmarks.http.client PORT KIND CONNECTIONS REQUESTS RATE`.

It is one process with a selector and plain sockets, so that it takes less CPU than any server. It prints the duration
in seconds. If RATE is not 0, it also prints how late the answers are, counted from the time when each request was due
to be sent.
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.http import BULK

__all__ = ["main"]

_PAYLOAD: Final = "x" * 98


def _requests(kind: str) -> Iterator[bytes]:
    draw = random.Random()
    while True:
        job = {"delay": 3600, "handler": "nothing", "payload": _PAYLOAD}
        if kind == "single":
            method, path, body = "PUT", f"/v1/jobs/{draw.getrandbits(64):016x}", json.dumps(job).encode()
        else:
            items = [{"do": "set", "key": f"{draw.getrandbits(64):016x}", **job} for _ in range(BULK)]
            method, path, body = "POST", "/v1/jobs:batch", json.dumps({"items": items}).encode()
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        yield f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class _Connection:
    """
    A socket with at most one request in progress.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0
        self._answer = b""

    def is_answered(self) -> bool:
        """
        Read the available data. Return True if the answer is complete.

        Raises:
            RuntimeError: If the answer is not a success.
        """
        self._answer += self.socket.recv(1 << 18)
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if not end:
            return False
        if head[9:10] != b"2":
            raise RuntimeError(self._answer.decode())
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(body) < length:
            return False
        self._answer = b""
        return True


class _Load:
    """
    Sends requests over all connections, and times the answers.
    """

    def __init__(self, port: int, connections: int) -> None:
        self._idle = deque(_Connection(port) for _ in range(connections))
        self._all = {each.socket.fileno(): each for each in self._idle}
        self._poll = select.epoll()
        for number in self._all:
            self._poll.register(number, select.EPOLLIN)
        self.waits: list[float] = []

    def run(self, bodies: list[bytes], at: Callable[[int], float]) -> float:
        """
        Send body number *n* at the time `at(n)`, or later if no connection is free then.

        Return the duration in seconds.
        """
        begin = time.perf_counter()
        sent = done = 0
        while done < len(bodies):
            now = time.perf_counter() - begin
            while sent < len(bodies) and self._idle and at(sent) <= now:
                connection = self._idle.popleft()
                connection.sent_at = at(sent) or now
                connection.socket.sendall(bodies[sent])
                sent += 1
            wait = at(sent) - (time.perf_counter() - begin) if self._idle and sent < len(bodies) else 1.0
            for number, _ in self._poll.poll(max(0.0, wait)):
                connection = self._all[number]
                if connection.is_answered():
                    self.waits.append(time.perf_counter() - begin - connection.sent_at)
                    self._idle.append(connection)
                    done += 1
        return time.perf_counter() - begin


def main(port: int, kind: str, connections: int, count: int, rate: float) -> None:
    """
    Warm up, send *count* requests, and print the results.

    Send *rate* requests per second. If *rate* is 0, each connection sends its next request as soon as it has an answer.
    """
    source = _requests(kind)
    bodies = [next(source) for _ in range(count)]
    load = _Load(port, connections)
    load.run([next(source) for _ in range(connections)], lambda _number: 0.0)
    load.waits.clear()
    seconds = load.run(bodies, lambda number: number / rate if rate else 0.0)
    waits = sorted(load.waits)
    figures = [waits[len(waits) // 2], waits[len(waits) * 99 // 100], waits[-1]]
    print(json.dumps({"seconds": seconds, "waits_ms": [wait * 1000 for wait in figures]}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
