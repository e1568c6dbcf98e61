"""
The functions with which the store waits for a connection of the PostgreSQL driver.

They report events by the numbers of the module `selectors`.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

import pytest

from tickwheel.stores.postgres import _timed

BOTH = EVENT_READ | EVENT_WRITE


@pytest.fixture(params=["poll", "select"])
def ready(request, monkeypatch):
    """
    Return the wait function that uses `poll`, and the one that uses `select` on systems without `poll`.
    """
    if request.param == "select":
        monkeypatch.setattr(_timed, "_poll", None)
    return _timed.ready


@pytest.fixture
def ends():
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


def test_events(ready, ends):
    """
    A wait returns the requested events that have occurred, or 0 if none occurs before the timeout.
    """
    here, there = ends
    assert [ready(here.fileno(), events, 0.0) for events in (EVENT_READ, EVENT_WRITE, BOTH)] == [
        0,
        EVENT_WRITE,
        EVENT_WRITE,
    ]
    assert ready(here.fileno(), EVENT_READ, -1.0) == 0
    there.send(b"x")
    assert [ready(here.fileno(), events, 20.0) for events in (EVENT_READ, EVENT_WRITE, BOTH)] == [
        EVENT_READ,
        EVENT_WRITE,
        BOTH,
    ]


def test_a_full_pipe_and_a_hang_up(ready, ends):
    """
    A descriptor with a full buffer is not writable.

    If the other end hangs up, the wait returns the same events as a selector.
    """
    here, there = ends
    here.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            here.send(b"x" * 65_536)
    assert ready(here.fileno(), EVENT_WRITE, 0.0) == 0
    there.close()
    for events in (EVENT_READ, EVENT_WRITE, BOTH):
        with DefaultSelector() as selector:
            selector.register(here.fileno(), events)
            assert ready(here.fileno(), events, 0.0) == selector.select(0)[0][1]
