"""
The delay queue: its order, its waits, and its wake-ups.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty
from typing import Any

import pytest

from tickwheel.clock import MonotonicClock
from tickwheel.errors import ClosedError, InvalidDelayError
from tickwheel.testing import ManualClock
from tickwheel.wheels.delay_queue import DelayQueue

PATIENCE_S = 30
"""Maximum wait in seconds for a thread."""


class WatchedClock(ManualClock):
    """
    A manual clock that counts its readings, so that a test can see that a thread waits.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads = threading.Semaphore(0)

    def monotonic_ns(self) -> int:
        """
        Count the reading, and return the time.
        """
        self.reads.release()
        return super().monotonic_ns()


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    """
    Run *call* in a daemon thread, and return a future of its result.
    """
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 handed to the test
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def test_order() -> None:
    """
    Items come in the order of their deadlines and, if these are equal, in the order of the offers.
    """
    clock = ManualClock()
    queue: DelayQueue[str] = DelayQueue(clock)
    for item, delay in [("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.0), ("z", math.inf)]:
        queue.offer(item, delay)
    clock.advance(2.0)
    assert [queue.poll() for _ in range(4)] == ["a", "b", "c", "d"]
    assert len(queue) == 1


def test_not_early() -> None:
    """
    A poll returns an item at its deadline, and not a nanosecond earlier.
    """
    clock = ManualClock(start_ns=10**12)
    queue: DelayQueue[str] = DelayQueue(clock)
    queue.offer("tea", 1e-6)
    clock.advance(999e-9)
    with pytest.raises(Empty):
        queue.poll()
    clock.advance(1e-9)
    assert queue.poll() == "tea"


def test_delays_that_have_passed() -> None:
    """
    An item with a delay of zero or less is due now.
    """
    queue: DelayQueue[str] = DelayQueue(ManualClock())
    queue.offer("zero", 0)
    queue.offer("negative", -5)
    assert queue.poll() == "zero"
    assert queue.take() == "negative"


def test_bad_delays() -> None:
    """
    NaN and objects that are not numbers are refused as delays, and leave nothing in the queue.
    """
    queue: DelayQueue[str] = DelayQueue()
    with pytest.raises(InvalidDelayError):
        queue.offer("tea", math.nan)
    with pytest.raises(InvalidDelayError, match="timeout is nan"):
        queue.take(math.nan)
    with pytest.raises(TypeError):
        queue.offer("tea", None)  # type: ignore[arg-type]
    assert len(queue) == 0


def test_cancel() -> None:
    """
    A cancelled item is not taken, and a second cancel returns False.
    """
    queue: DelayQueue[str] = DelayQueue(ManualClock())
    tea = queue.offer("tea", 0)
    assert queue.cancel(tea)
    assert not queue.cancel(tea)
    with pytest.raises(Empty):
        queue.poll()


def test_close() -> None:
    """
    `close` returns each item with the seconds until it is due. Later calls raise an error.
    """
    clock = ManualClock(start_ns=10**12)
    queue: DelayQueue[str] = DelayQueue(clock)
    for item, delay in [("later", 3.5), ("overdue", 1.0), ("never", math.inf)]:
        queue.offer(item, delay)
    clock.advance(1.5)
    assert queue.close() == [("overdue", -0.5), ("later", 2.0), ("never", math.inf)]
    assert queue.close() == []
    for call in (lambda: queue.offer("tea", 1), queue.take, queue.poll):
        with pytest.raises(ClosedError):
            call()


def test_a_taker_is_woken_for_an_earlier_arrival() -> None:
    """
    A thread that waits for an item an hour away takes an item that arrives and is due now.
    """
    clock = WatchedClock()
    queue: DelayQueue[str] = DelayQueue(clock)
    queue.offer("in an hour", 3_600)
    clock.reads.acquire()
    taken = in_thread(queue.take)
    assert clock.reads.acquire(timeout=PATIENCE_S)
    queue.offer("now", 0)
    assert taken.result(PATIENCE_S) == "now"
    assert len(queue) == 1


def test_a_taker_of_an_empty_queue_is_woken() -> None:
    """
    A thread that waits on an empty queue takes the first item that is offered.
    """
    clock = WatchedClock()
    queue: DelayQueue[str] = DelayQueue(clock)
    taken = in_thread(queue.take)
    assert clock.reads.acquire(timeout=PATIENCE_S)
    queue.offer("now", 0)
    assert taken.result(PATIENCE_S) == "now"


def test_takers_follow_the_leader() -> None:
    """
    If several threads wait, each takes one item when it is due, and no thread stays asleep.
    """
    clock = WatchedClock()
    queue: DelayQueue[int] = DelayQueue(clock)
    takers = [in_thread(queue.take) for _ in range(5)]
    for _ in takers:
        assert clock.reads.acquire(timeout=PATIENCE_S)
    for item in range(5):
        queue.offer(item, 3_600)
    clock.advance(3_600)
    queue.wake()
    assert sorted(taken.result(PATIENCE_S) for taken in takers) == list(range(5))


def test_waiting_takers_learn_of_the_close() -> None:
    """
    If the queue is closed, all waiting threads stop waiting.
    """
    clock = WatchedClock()
    queue: DelayQueue[int] = DelayQueue(clock)
    queue.offer(1, 3_600)
    clock.reads.acquire()
    takers = [in_thread(queue.take) for _ in range(3)]
    for _ in takers:
        assert clock.reads.acquire(timeout=PATIENCE_S)
    queue.close()
    for taken in takers:
        with pytest.raises(ClosedError):
            taken.result(PATIENCE_S)


@pytest.mark.realtime
def test_take_with_a_timeout() -> None:
    """
    A take that times out raises Empty. Another waiting thread then takes the next item.
    """
    queue: DelayQueue[str] = DelayQueue()
    with pytest.raises(Empty):
        queue.take(0.001)
    queue.offer("later", 3_600)
    with pytest.raises(Empty):
        queue.take(0.001)
    follower = in_thread(queue.take)
    queue.offer("soon", 0.002)
    assert follower.result(PATIENCE_S) == "soon"


@pytest.mark.realtime
def test_many_threads() -> None:
    """
    If four threads offer items and four others take them, each item is taken once, and none is taken early.
    """
    queue: DelayQueue[tuple[int, int]] = DelayQueue()
    clock = MonotonicClock()

    def offer(producer: int) -> None:
        for number in range(500):
            delay_us = number * 7_919 % 5_000
            queue.offer((producer * 1_000 + number, clock.monotonic_ns() + delay_us * 1_000), delay_us / 1e6)

    def take(_: int) -> list[tuple[int, int]]:
        taken = []
        for _ in range(500):
            item, not_before = queue.take(PATIENCE_S)
            taken.append((item, time.monotonic_ns() - not_before))
        return taken

    with ThreadPoolExecutor(8) as pool:
        takers = [pool.submit(take, number) for number in range(4)]
        producers = [pool.submit(offer, number) for number in range(4)]
        for producer in producers:
            producer.result(PATIENCE_S)
        taken = [item for taker in takers for item in taker.result(PATIENCE_S)]
    assert sorted(item for item, _ in taken) == [
        producer * 1_000 + number for producer in range(4) for number in range(500)
    ]
    assert min(late for _, late in taken) >= 0
