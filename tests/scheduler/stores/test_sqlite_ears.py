"""
How an owner hears that others have written, by a FIFO and by a port: the one that this system uses, and the other.
"""

from __future__ import annotations

import socket
import threading

import pytest

from tickwheel.scheduler.stores._wakeable import WakeableWait
from tickwheel.scheduler.stores.sqlite._ears import FifoEars, PortEars

PATIENCE_S = 20.0
KINDS = [pytest.param(FifoEars, marks=pytest.mark.needs("os.mkfifo")), PortEars]


@pytest.fixture
def path(tmp_path):
    """
    Return where they hang.
    """
    return tmp_path / "jobs.db-wake"


@pytest.fixture
def wait():
    """
    Lend a wait.
    """
    made = WakeableWait()
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_ring_is_heard(kind, path, wait):
    """
    Rings end a wait, many are one, and what is heard is heard once.
    """
    ears = kind.hang(path, 0o600)
    assert wait.wait(0, ears.fileno()) == set()
    for _ in range(10):
        kind.ring(path)
    assert wait.wait(PATIENCE_S, ears.fileno()) == {ears.fileno()}
    assert ears.hear()
    assert wait.wait(0, ears.fileno()) == set()
    ears.close()


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_last_is_named(kind, path):
    """
    Who hangs ears where a dead owner's hang takes the name over; what else has the name stays.
    """
    old = kind.hang(path, 0o600)
    new = kind.hang(path, 0o600)
    assert [old.is_named(), new.is_named()] == [False, True]
    path.unlink()
    assert not new.is_named()
    path.write_text("mine", "ascii")
    assert kind.hang(path, 0o600) is None
    assert path.read_text("ascii") == "mine"
    old.close()
    new.close()


def test_a_stranger_is_not_heard(path, wait):
    """
    A datagram without the word that stands in the file is taken in, and is no ring.
    """
    ears = PortEars.hang(path, 0o600)
    assert path.stat().st_mode & 0o077 == 0
    port = int(path.read_text("ascii").split()[-2])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"knock", ("127.0.0.1", port))
    assert wait.wait(PATIENCE_S, ears.fileno()) == {ears.fileno()}
    assert not ears.hear()
    ears.close()


def test_a_wait_is_ended_by_another_thread(wait):
    """
    A token ends a wait that is under way, or the next one, once; forgotten, it ends none.
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
