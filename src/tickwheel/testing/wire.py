"""
A TCP relay between a client and a server on the loopback interface, with faults that a test switches on.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

__all__ = ["Wire"]

_RESET = struct.pack("ii", 1, 0)
_CHUNK = 1 << 16


class Wire:
    """
    Relays TCP connections from its own port to *port*, with faults on demand.

    A test can cut the relay, and mend it on the same port. It can swallow answers: the server still receives requests,
    but the client gets no answer, as if the server died between its work and its answer. It can stall, as a stopped
    server does. And it can reset each connection, as a proxy does after its server has ended.

    Attributes:
        resets: Number of connections that `reset_all` has reset.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._to = (host, port)
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._answers: int | None = None
        self._moves = threading.Event()
        self._moves.set()
        self._resets_all = False
        self.resets = 0
        self.port = 0
        self.mend()

    def __repr__(self) -> str:
        return f"<Wire from {self.port} to {self._to[0]}:{self._to[1]}>"

    @property
    def connections(self) -> int:
        """
        Return the number of relayed connections.
        """
        with self._lock:
            return len(self._ends) // 2

    def swallow(self, after: int = 0) -> None:
        """
        Relay the next *after* answers, then drop all answers until `mend`.
        """
        self._answers = after

    def stall(self) -> None:
        """
        Accept connections and data, and forward nothing until `go_on`.
        """
        self._moves.clear()

    def go_on(self) -> None:
        self._moves.set()

    def reset_all(self) -> None:
        """
        Reset all connections, and each new connection immediately, until `mend`.
        """
        self.cut()
        self._resets_all = True
        self._listen()

    def cut(self) -> None:
        """
        Reset all connections, and refuse new ones until `mend`.
        """
        self._moves.set()
        with self._lock:
            listener, self._listener = self._listener, None
            ends, self._ends = self._ends, set()
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # only this wakes the thread that accepts
            listener.close()
        for end in ends:
            _reset(end)

    close = cut

    def mend(self) -> None:
        """
        End all faults. Connections that were reset stay closed.
        """
        self._answers = None
        self._resets_all = False
        self._listen()

    def _listen(self) -> None:
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server((self._to[0], self.port), reuse_port=True)
                self.port = self._listener.getsockname()[1]
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # the relay was cut
                return
            if self._resets_all:
                self.resets += 1
                _reset(near)
                continue
            try:
                far = socket.create_connection(self._to)
            except OSError:
                near.close()
                continue
            with self._lock:
                if self._listener is not listener:
                    near.close()
                    far.close()
                    return
                self._ends |= {near, far}
            threading.Thread(target=self._relay, args=(near, far), kwargs={"is_answer": False}, daemon=True).start()
            threading.Thread(target=self._relay, args=(far, near), kwargs={"is_answer": True}, daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, *, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                self._moves.wait()
                if is_answer and self._answers is not None:
                    self._answers -= 1
                    if self._answers < 0:
                        continue
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            ended = self._ends & {source, sink}
            self._ends -= ended
        for end in ended:
            end.close()


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
    end.close()
