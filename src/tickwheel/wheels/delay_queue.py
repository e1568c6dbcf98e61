"""
A queue whose items can be taken once their delay has passed.

    offer("eggs", 3.0)   offer("tea", 1.0)              a taker sleeps until the first item is due, and is woken
         now                  now                       earlier if an earlier item arrives
    ------|--------------------|------- tea ------- eggs ------> time
                                         ^ take()     ^ take()

One of the threads in `take` is the leader. Only the leader waits for the first item's time; the other threads wait to
be woken. A thread that leaves with an item, or offers an earlier item, wakes one other thread, which becomes the next
leader. So each item wakes only one thread.

The source: Doug Lea's `java.util.concurrent.DelayQueue`, with the leader-follower idea of D. Schmidt et al.,
"Pattern-Oriented Software Architecture", volume 2.

    >>> queue = DelayQueue()
    >>> _ = queue.offer("tea", 0), queue.offer("eggs", 0.001)
    >>> queue.poll()
    'tea'
    >>> queue.take()
    'eggs'
"""

from __future__ import annotations

import threading
from queue import Empty
from typing import Generic, TypeVar

from tickwheel.clock import NEVER, Clock, MonotonicClock, seconds, to_deadline, to_delay
from tickwheel.errors import ClosedError
from tickwheel.typing import NonCopyable, Seconds
from tickwheel.wheels.heap import HeapWheel

__all__ = ["DelayQueue"]

T = TypeVar("T")


class DelayQueue(NonCopyable, Generic[T]):
    """
    A queue of items by deadline. Items with equal deadlines keep the order in which they were offered.

    Every method may be called from any thread.

    Args:
        clock: Source of time. After moving a manual clock, call `wake`, because waiting threads do not notice the move.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = MonotonicClock() if clock is None else clock
        self._heap = HeapWheel()
        self._changed = threading.Condition()
        self._leader: int | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self)} items"
        return f"<DelayQueue {state}>"

    def offer(self, item: T, delay: Seconds) -> int:
        """
        Add *item*, which can be taken in *delay* seconds, and return its id. Costs O(log n).
        """
        deadline = min(self._clock.monotonic_ns() + to_delay(delay), NEVER)
        with self._changed:
            if self._is_closed:
                raise ClosedError("queue")
            before = self._heap.next_expiration()
            id = self._heap.insert(deadline, item)  # noqa: A001  the wheel's word
            if deadline != NEVER and (before is None or deadline < before):
                self._wake_one()
        return id

    def cancel(self, id: int) -> bool:
        """
        Remove the item with this id. Return True if the item was in the queue; then no thread will take it.
        """
        with self._changed:
            return self._heap.cancel(id)

    def poll(self) -> T:
        """
        Take the first item that is due, without waiting.

        Raises:
            Empty: If no item is due.
        """
        return self.take(0)

    def take(self, timeout: Seconds | None = None) -> T:
        """
        Wait until an item is due, at most *timeout* seconds (None: no limit), and take it.

        Raises:
            Empty: If no item was due in that time.
            ClosedError: After close, also in threads that already wait.
        """
        ends = NEVER if timeout is None else self._clock.monotonic_ns() + to_deadline(timeout, "timeout")
        with self._changed:
            try:
                while True:
                    if self._is_closed:
                        raise ClosedError("queue")
                    now = self._clock.monotonic_ns()
                    if due := self._heap.advance(now, 1):
                        item: T = due[0].payload
                        return item
                    if now >= ends:
                        raise Empty
                    self._wait(now, ends)
            finally:
                if self._leader is None and self._heap.next_expiration() is not None:
                    self._changed.notify()

    def wake(self) -> None:
        """
        Make every waiting thread read the clock again. Call this method after advancing a manual clock.
        """
        with self._changed:
            self._leader = None
            self._changed.notify_all()

    def close(self) -> list[tuple[T, float]]:
        """
        Refuse further calls, and return the remaining items with the seconds until each is due.

        A second call returns [].
        """
        with self._changed:
            self._is_closed = True
            now = self._clock.monotonic_ns()
            left = [(item, _remaining(deadline, now)) for _, deadline, item in self._heap.drain()]
            self._changed.notify_all()
        return left

    def __len__(self) -> int:
        with self._changed:
            return len(self._heap)

    def _wait(self, now: int, ends: int) -> None:
        due_at = self._heap.next_expiration()
        if due_at is None or self._leader is not None:
            self._sleep(now, ends)
            return
        self._leader = threading.get_ident()
        try:
            self._sleep(now, min(due_at, ends))
        finally:
            if self._leader == threading.get_ident():
                self._leader = None

    def _sleep(self, now: int, until: int) -> None:
        self._changed.wait(None if until == NEVER else min(seconds(until - now), threading.TIMEOUT_MAX))

    def _wake_one(self) -> None:
        # The leader waits for a later item, so the thread that wakes up becomes the leader.
        self._leader = None
        self._changed.notify()


def _remaining(deadline: int, now: int) -> float:
    return float("inf") if deadline == NEVER else (deadline - now) / 1e9
