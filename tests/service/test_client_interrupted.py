"""
Starts and stops of a client that are interrupted.
"""

from __future__ import annotations

import threading

import pytest

from tickwheel.remote._puller import Puller

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")


def pulling() -> set[str]:
    """
    Return the names of the threads that pull jobs.
    """
    return {each.name for each in threading.enumerate()} & {"tickwheel-beats", "tickwheel-pull-a", "tickwheel-pull-b"}


def test_no_thread_for_a_handler_that_pulls(client, monkeypatch, until):
    """
    If the client cannot start a thread for one of its handlers, its start fails, and it pulls no jobs.
    """
    for name in ("a", "b"):
        client.handler(name)(print)
    start = threading.Thread.start

    def scarce(thread):
        if thread.name == "tickwheel-pull-a":
            what = "can't start new thread"
            raise RuntimeError(what)
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", scarce)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            client.start()
    until(lambda: not pulling())
    assert not client.is_started
    client.start()
    assert len(pulling()) == 3


def test_ctrl_c_as_a_client_stops(client, monkeypatch):
    """
    If Ctrl-C interrupts a stop, the client's connections are closed, and the next stop ends the remaining threads.
    """
    client.handler("a")(print)
    client.start()
    stop, signals = Puller.stop, [KeyboardInterrupt()]

    def interrupted(puller, deadline):
        if signals:
            raise signals.pop()
        return stop(puller, deadline)

    monkeypatch.setattr(Puller, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.stop()
    assert client._core._transport._is_closed
    assert client.stop() == []
    assert "tickwheel-pull-a" not in pulling()
