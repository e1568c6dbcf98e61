"""
Locks that are free in the child of a fork.
"""

from __future__ import annotations

import sys
import threading

from tickwheel.timers import locks


def test_locks_that_are_made_during_a_fork():
    """
    If several threads fork while others create locks, every lock can be acquired in each child.
    """
    kept = [locks.new_lock(locks.INNER) for _ in range(5_000)]
    failures, is_over, interval = [], threading.Event(), sys.getswitchinterval()

    def make() -> None:
        while not is_over.is_set():
            kept[:1_000] = [locks.new_lock(locks.INNER) for _ in range(1_000)]

    def fork() -> None:
        try:
            for _ in range(30):
                locks._take()
                locks._give()
        except RuntimeError as error:
            failures.append(error)

    sys.setswitchinterval(1e-5)
    try:
        maker, *forkers = [threading.Thread(target=each) for each in (make, fork, fork)]
        for thread in (maker, *forkers):
            thread.start()
        for thread in forkers:
            thread.join(60)
        is_over.set()
        maker.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert all(lock.acquire(blocking=False) for lock in kept)
    for lock in kept:
        lock.release()
