"""
Backpressure: the number of waiting writes is limited.
"""

from __future__ import annotations

import threading

import pytest
from writes import a_set, outcomes

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import Outcome

PATIENCE_S = 20.0


def test_full_queue(make, store):
    """
    If too many writes are queued, the next caller has to wait for room.

    If this caller may not wait, its write is refused and not queued.
    """
    writer = make(waiting_max=3)
    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        futures = [writer.submit(a_set(f"{i}")) for i in range(3)]
        assert writer.waiting == 3
        with pytest.raises(StoreError, match=r"3 writes wait for .*, and 3 may: write more slowly") as caught:
            writer.submit(a_set("refused"), timeout_s=0)
        assert caught.value.is_transient
        with pytest.raises(StoreError):
            writer.submit_many([a_set("refused"), a_set("refused too")], timeout_s=0.01)
        waited = threading.Thread(target=lambda: futures.append(writer.submit(a_set("waited"))))
        waited.start()
    waited.join(PATIENCE_S)
    assert outcomes(future.result(PATIENCE_S) for future in futures) == [Outcome.CREATED] * 4
    assert store.get("refused") is None
    assert store.get("waited") is not None


def test_bulk_above_the_limit(make):
    """
    A batch that is larger than the limit is accepted if nothing else waits.
    """
    writer = make(waiting_max=3)
    assert len(writer.submit_many([a_set(f"{i}") for i in range(50)]).result(PATIENCE_S)) == 50


def test_own_writes_need_no_room(make, store):
    """
    The scheduler's own writes are queued even if the queue is full, and even from inside a callback.
    """
    writer = make(waiting_max=1)
    answered = threading.Event()

    def again(_):
        writer.post([a_set("second")], lambda _: answered.set())

    with store.held() as entered:
        writer.submit(a_set("first"))
        assert entered()
        writer.submit(a_set("caller"))
        writer.post([a_set("own")], again)
    assert answered.wait(PATIENCE_S)
