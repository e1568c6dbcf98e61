"""
The client of the echo server: `python benchmarks/aio/client.py PORT CONNECTIONS REQUESTS`.
"""

from __future__ import annotations

import resource
import select
import socket
import sys

__all__ = ["allow_files"]

MESSAGE = b"x" * 64


def allow_files(connections: int) -> None:
    """
    Raise the limit of open files so that it allows this number of connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < connections + 100:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, connections + 100), hard))


def ask(port: int, connections: int, requests: int) -> None:
    """
    Run the client.

    It connects, and warms up with one request on each connection. Then it sends requests until *requests* answers have
    arrived.
    """
    allow_files(connections)
    poll = select.epoll()
    sockets = {}
    for _ in range(connections):
        peer = socket.create_connection(("127.0.0.1", port))
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[peer.fileno()] = peer
        poll.register(peer.fileno(), select.EPOLLIN)
    answer_all(poll, sockets, connections, connections)
    print("warm", flush=True)
    answer_all(poll, sockets, connections, requests)
    print("done", flush=True)


def answer_all(poll: select.epoll, sockets: dict[int, socket.socket], under_way: int, requests: int) -> None:
    """
    Send a request on every connection, and the next one after each answer, until *requests* answers have arrived.
    """
    for peer in sockets.values():
        peer.send(MESSAGE)
    left = requests
    while under_way:
        for number, _ in poll.poll():
            assert sockets[number].recv(256) == MESSAGE
            left -= 1
            if left >= len(sockets):
                sockets[number].send(MESSAGE)
            else:
                under_way -= 1


if __name__ == "__main__":
    ask(*map(int, sys.argv[1:]))
