"""
A client of a service in the child of a fork.
"""

from __future__ import annotations

import os
import threading

import pytest

from tickwheel.scheduler import StoreError

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

pytestmark = pytest.mark.needs("os.fork")

ENDED = 0


def end_of(child: int) -> int:
    """
    Return the exit code of the process *child*, and kill it if it does not end.
    """
    guard = threading.Timer(60, os.kill, (child, 9))
    guard.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        guard.cancel()


def test_a_fork_while_a_thread_asks(client):
    """
    If a thread of the parent is about to send a request at the moment of a fork, the child can still use its client.
    """
    transport = client._core._transport
    client.set("forked", delay=3600, target="log")
    is_asking, go_on = threading.Event(), threading.Event()

    def ask():
        with transport._lock:
            is_asking.set()
            go_on.wait(0.2)  # during this time the fork is requested, and waits for the end of this call

    asking = threading.Thread(target=ask)
    asking.start()
    assert is_asking.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(ENDED if client.get("forked") is not None else 1)
    go_on.set()
    asking.join()
    assert end_of(child) == ENDED
    client.cancel("forked")


def test_a_fork_while_handlers_run(client):
    """
    The child of a fork runs no handlers. It can call the service, but its client cannot be started.
    """
    begun, go_on = threading.Event(), threading.Event()

    @client.handler("forks")
    def forks(_payload):
        begun.set()
        go_on.wait(300)

    client.start()
    client.set("forks", delay=0, target="pull", handler="forks")
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert client.get("forks") is not None
            assert not client.is_started
            with pytest.raises(StoreError, match="make a new scheduler in the child"):
                client.start()
            assert client.stop(timeout=None) == []
            code = ENDED
        finally:
            os._exit(code)
    assert end_of(child) == ENDED
    assert client.is_started
    go_on.set()
    assert client.stop(timeout=None) == []
