"""
Notifications through a FIFO and through a port.

The tests cover both kinds of channel, whichever of them this system uses.
"""

from __future__ import annotations

import socket
import threading
from unittest import mock

import pytest

from tickwheel.stores._wakeable import WakeableWait
from tickwheel.stores.sqlite._channels import FifoChannel, PortChannel

PATIENCE_S = 20.0
KINDS = [pytest.param(FifoChannel, marks=pytest.mark.needs("os.mkfifo")), PortChannel]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db-wake"


@pytest.fixture
def wait():
    """
    Yield an object with which a thread waits for notifications.
    """
    made = WakeableWait()
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_notification_ends_a_wait(kind, path, wait):
    """
    A notification ends a wait and is consumed. Several pending notifications have the effect of one.
    """
    channel = kind.make(path, 0o600)
    assert wait.wait(0, channel.fileno()) == set()
    for _ in range(10):
        kind.notify(path)
    assert wait.wait(PATIENCE_S, channel.fileno()) == {channel.fileno()}
    assert channel.receive()
    assert wait.wait(0, channel.fileno()) == set()
    channel.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_channel_replaces_only_a_dead_channel(kind, path):
    """
    A new channel takes over the file of a dead owner's channel.

    It never replaces any other file.
    """
    old = kind.make(path, 0o600)
    new = kind.make(path, 0o600)
    assert [old.is_named(), new.is_named()] == [False, True]
    path.unlink()
    assert not new.is_named()
    path.write_text("mine", "ascii")
    assert kind.make(path, 0o600) is None
    assert path.read_text("ascii") == "mine"
    old.close()
    new.close()


def test_a_datagram_without_the_secret_is_ignored(path, wait):
    """
    A datagram without the secret in the channel's file is read and ignored.
    """
    channel = PortChannel.make(path, 0o600)
    assert path.stat().st_mode & 0o077 == 0
    port = int(path.read_text("ascii").split()[-2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"knock", ("127.0.0.1", port))
    assert wait.wait(PATIENCE_S, channel.fileno()) == {channel.fileno()}
    assert not channel.receive()
    channel.close()


def test_a_wait_is_ended_by_another_thread(wait):
    """
    A call of `wake` ends the current wait or, if no thread waits, the next wait.

    After a call of `forget`, an earlier call of `wake` ends no wait.
    """
    waiting = threading.Thread(target=wait.wait, args=(3_600,))
    waiting.start()
    wait.wake()
    waiting.join(PATIENCE_S)
    assert not waiting.is_alive()
    wait.wake()
    assert wait.wait(3_600) == set()
    wait.wake()
    wait.forget()
    assert wait.wait(0) == set()


def test_a_channel_is_not_closed_during_a_wait(wait):
    """
    If a channel is retired or closed during a wait, it is closed after the wait. No new wait begins.
    """
    ends: list[str] = []
    channel = mock.Mock(close=lambda: ends.append("channel"))
    with wait.entered() as is_open:
        assert is_open
        wait.retire(channel)
        wait.close()
        wait.recall()
        assert wait.wait(PATIENCE_S) == set()
        assert not ends
    wait.close()
    assert ends == ["channel"]
    with wait.entered() as is_open:
        assert not is_open
