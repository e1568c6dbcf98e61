"""
A proxy for a server.

Tests may make the proxy slow or silent. The proxy counts round trips.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress


class Line:
    """
    Forwards connections to a server, in threads of its own.

    Attributes:
        delay_s: Seconds by which each piece of data is delayed, in either direction.
        trips: Number of round trips. A round trip begins when a client sends data for the first time, or for the first
            time after data from the server.
        opened: Number of connections that were made.
    """

    def __init__(self, server):
        """
        Forward to *server*, which is the path of a Unix socket or a port of the loopback.
        """
        self.delay_s = 0.0
        self.trips = self.opened = 0
        self._server = server
        self._is_cut = self._is_closed = False
        self._silent, self._pairs = set(), {}
        self._threads = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def silence(self):
        """
        Make all existing connections silent: they accept data but do not forward it.

        New connections work.
        """
        self._silent.update(self._pairs)

    def cut(self):
        """
        Make all connections silent, including new connections.

        They accept data but do not forward it.
        """
        self._is_cut = True

    def mend(self):
        """
        Let new connections work again.
        """
        self.silence()
        self._is_cut = False

    def close(self):
        """
        End all connections and threads.
        """
        self._is_closed = True
        with socket.create_connection(("127.0.0.1", self.port)):  # this ends the wait for a connection
            pass
        for pair in list(self._pairs.values()):
            for end in pair:
                _shut(end)
        for thread in self._threads:
            thread.join()
        for end in (self._listener, *(end for pair in self._pairs.values() for end in pair)):
            end.close()

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            if self._is_closed:
                near.close()
                return
            family = socket.AF_INET if isinstance(self._server, int) else socket.AF_UNIX
            far = socket.socket(family)
            far.connect(("127.0.0.1", self._server) if family == socket.AF_INET else self._server)
            self.opened += 1
            number, turn = self.opened, [True]
            self._pairs[number] = near, far
            for source, target, is_question in ((near, far, True), (far, near, False)):
                on_its_way = queue.SimpleQueue()
                self._start(self._take, source, on_its_way, turn, is_question)
                self._start(self._give, target, on_its_way, number)

    def _take(self, source, on_its_way, turn, is_question):
        data = b"."
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if data:
                self.trips += is_question and turn[0]
                turn[0] = not is_question
            on_its_way.put((time.monotonic() + self.delay_s, data))

    def _give(self, target, on_its_way, number):
        while True:
            at, data = on_its_way.get()
            if at > time.monotonic():
                time.sleep(max(0.0, at - time.monotonic()))
            if self._is_cut or number in self._silent:
                self._silent.add(number)
            else:
                with suppress(OSError):
                    target.sendall(data)
                if not data:
                    _shut(target)
            if not data:
                return


def _shut(end):
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
