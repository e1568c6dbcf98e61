"""
Closing a writer, and a writer in a forked child process.
"""

from __future__ import annotations

import os
import threading

import pytest
from writes import a_set, outcomes

from tickwheel.errors import ClosedError
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Outcome

PATIENCE_S = 20.0


def test_close_writes_waiting_writes(make, store):
    """
    A writer that is closed refuses new writes, but completes and answers all waiting writes.

    The writer may be closed more than once.
    """
    writer = make()
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(10)]
        assert writer.close(timeout_s=0) is False
        for refused in (lambda: writer.submit(a_set("late")), lambda: writer.post([a_set("late")], print)):
            with pytest.raises(ClosedError, match="is closed"):
                refused()
    assert writer.close(PATIENCE_S)
    assert outcomes(future.result(0) for future in futures) == [Outcome.CREATED] * 10
    assert writer.close(PATIENCE_S)


def test_close_releases_callers_that_wait_for_room(make, store):
    """
    If a caller waits for room when the writer closes, the caller gets an error that says so.
    """
    writer = make(waiting_max=1)
    caught = []
    waits = threading.Event()

    def wait():
        waits.set()
        try:
            writer.submit(a_set("waits"))
        except ClosedError as error:
            caught.append(error)

    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        writer.submit(a_set("fills"))
        thread = threading.Thread(target=wait)
        thread.start()
        assert waits.wait(PATIENCE_S)
        writer.close(timeout_s=0)
        thread.join(PATIENCE_S)
    assert len(caught) == 1


def test_close_from_a_callback(make):
    """
    A callback may close the writer without a deadlock.
    """
    writer = make()
    closed = []
    writer.post([a_set("key")], lambda _: closed.append(writer.close()))
    assert writer.close(PATIENCE_S)
    assert closed in ([False], [])


@pytest.mark.needs("os.fork")
def test_fork(make):
    """
    A forked child has no writer thread.

    So a write in the child raises an error instead of waiting forever.
    """
    writer = make()
    reader, end = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            writer.submit(a_set("key"))
        except StoreError as error:
            os.write(end, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"was opened before a fork: make a new scheduler in the child process" in os.read(reader, 1000)
    os.close(reader)
    os.close(end)
