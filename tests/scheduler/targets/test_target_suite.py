"""
The proxy of the tests works, and the suite of targets detects faults that the tests plant.
"""

from __future__ import annotations

import json
import socket
import threading
from urllib.parse import quote

import pytest

from tickwheel.scheduler import InvalidJobError
from tickwheel.targets import Call, DeadLetter, Snooze
from tickwheel.testing import target_suite
from tickwheel.testing.target_suite import Received, TargetSuite
from tickwheel.testing.wire import Wire


@pytest.fixture
def echo():
    """
    Return a proxy in front of a server.

    The server sends back and records its input.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    got = []

    def serve():
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    def answer(end):
        with end:
            while data := end.recv(100):
                got.append(data)
                end.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    wire = Wire(listener.getsockname()[1])
    wire.got = got
    yield wire
    wire.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connect(wire):
    return socket.create_connection(("127.0.0.1", wire.port), timeout=10)


def test_the_wire_relays(echo):
    """
    The proxy passes data in both directions.
    """
    with connect(echo) as end:
        end.sendall(b"ping")
        assert end.recv(100) == b"ping"
        assert echo.connections == 1


def test_the_wire_is_cut_and_mended(echo):
    """
    After a cut, open connections are broken and new ones are refused.

    After the repair, the proxy has the same address.
    """
    port = echo.port
    with connect(echo) as end:
        end.sendall(b"ping")
        end.recv(100)
        echo.cut()
        with pytest.raises(ConnectionRefusedError):
            connect(echo)
        try:
            assert end.recv(100) == b""
        except ConnectionResetError:
            """Either is a broken connection."""
    echo.mend()
    assert echo.port == port
    with connect(echo) as end:
        end.sendall(b"again")
        assert end.recv(100) == b"again"


def test_the_wire_loses_answers(echo):
    """
    After a call of `swallow`, the proxy passes a given number of answers back to the client.

    It discards later answers. Data from the client continues to reach the server.
    """
    with connect(echo) as end:
        echo.swallow(after=1)
        end.sendall(b"one")
        assert end.recv(100) == b"one"
        end.sendall(b"two")
        end.settimeout(0.2)
        with pytest.raises(TimeoutError):
            end.recv(100)
        assert echo.got == [b"one", b"two"]


class Memory:
    """
    A receiver that keeps messages in a list, and the target for it.

    The target has at most one fault.
    """

    handler, secret = "there", "hunter2"

    def __init__(self, fault=None):
        self.fault = fault
        self.kept = []
        self.is_away = self.is_losing = False
        self.ended = threading.Event()

    def make_target(self):
        """
        Return this object, because it is both the receiver and its target.
        """
        return self

    def payload(self, value):
        return {"value": value}

    def received(self):
        return list(self.kept)

    def go_away(self):
        """
        Become unreachable.
        """
        self.is_away = True

    def come_back(self):
        """
        Become reachable again.
        """
        self.is_away = self.is_losing = False

    def resets(self):
        """
        Return the number of connections that were reset, which is always 0 because there are no connections.
        """
        return 0

    stall = reset_all = fill = go_away
    go_on = make_room = come_back

    def lose_confirms(self):
        """
        Store the next message without confirming it.
        """
        self.is_losing = True

    def check(self, handler):
        """
        Refuse the empty name.
        """
        if not handler and self.fault != "takes any name":
            raise InvalidJobError("handler", handler, "name it")

    def resolve(self, handler):
        return Call(self.send, wants_payload=False, wants_firing=True)

    def send(self, firing):
        """
        Store the message, with the effect of the fault.
        """
        if self.is_away:
            if self.fault == "says done":
                return None
            if self.fault == "charges the job":
                self.refuse()
            return Snooze(1, "no hunter2" if self.fault == "shows its secret" else "nobody there")
        if len(firing.job.payload) > 500_000:
            return DeadLetter("too large") if self.fault != "never stops trying" else self.refuse()
        if self.fault == "leaves a thread":
            threading.Thread(target=self.ended.wait, args=(20,), name="sender").start()
        copies = 2 if self.fault == "sends twice" else 1
        value = json.loads(firing.job.payload)["value"]
        self.kept += [Received(firing.message_id, quote(firing.fire_id), value)] * copies
        if self.is_losing:
            self.is_away = True
            if self.fault == "charges the job":
                self.refuse()
            return Snooze(1, "no confirm")
        return None

    def refuse(self):
        message = "too large"
        raise ValueError(message)

    async def close(self):
        pass


class MemorySuite(TargetSuite):
    """
    The suite of targets, run on the receiver `Memory`.

    The name of this class does not begin with "Test", so pytest does not collect it.
    """

    takes_largest = False
    fault = None

    def make_receiver(self):
        self.made = Memory(self.fault)
        return self.made


TESTS = [name.removeprefix("test_") for name in dir(TargetSuite) if name.startswith("test_")]


@pytest.mark.parametrize("test", TESTS)
def test_a_target_without_a_fault_passes(test):
    """
    The suite passes for a target that keeps the contract.
    """
    getattr(MemorySuite(), f"test_{test}")()


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("sends twice", "delivered_once"),
        ("says done", "receiver_away"),
        ("charges the job", "receiver_away"),
        ("charges the job", "confirm_is_lost"),
        ("charges the job", "outage"),
        ("charges the job", "receiver_stalls"),
        ("charges the job", "receiver_is_full"),
        ("charges the job", "connections_are_reset"),
        ("says done", "outage"),
        ("never stops trying", "the_largest_payload"),
        ("takes any name", "bad_handlers"),
        ("leaves a thread", "closed_cleanly"),
        ("shows its secret", "secrets_are_masked"),
    ],
)
def test_a_fault_is_found(monkeypatch, fault, test):
    """
    For each fault of a target, the test that was written for this fault fails.
    """
    monkeypatch.setattr(target_suite, "PATIENCE_S", 1.0)
    suite = MemorySuite()
    suite.fault = fault
    with pytest.raises(AssertionError):
        getattr(suite, f"test_{test}")()
    suite.made.ended.set()
