"""
The promise of a write's answer.

The answer is set once. Callers wait for the answer, or get a callback.
"""

from __future__ import annotations

import threading
from pathlib import Path
from traceback import walk_tb

import pytest

from tickwheel.host.promise import Promise
from tickwheel.host.runtime import Runtime

PATIENCE_S = 20


def test_a_waiting_thread_gets_the_result():
    """
    A waiting thread gets the result that another thread sets.
    """
    promise: Promise[int] = Promise(Runtime())
    assert not promise.done()
    thread = threading.Thread(target=promise.set_result, args=(7,))
    thread.start()
    assert promise.result(PATIENCE_S) == 7
    assert promise.exception() is None
    assert promise.done()
    thread.join()


def test_the_error_of_a_promise_is_raised():
    """
    The error of a promise is raised in each waiting thread.

    The error can also be read without being raised.
    """
    promise: Promise[int] = Promise(Runtime())
    error = ValueError("no")
    promise.set_exception(error)
    assert repr(promise.exception()) == repr(error)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            promise.result()


def test_each_waiter_gets_a_separate_error():
    """
    If a batch fails, each waiting thread gets a separate exception, without the frames of other threads.
    """
    promises: list[Promise[int]] = [Promise(Runtime()) for _ in range(8)]
    seen: list[tuple[BaseException, list[str]]] = []

    def wait(promise: Promise[int]) -> None:
        try:
            promise.result(PATIENCE_S)
        except OSError as error:
            seen.append((error, [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)]))

    threads = [threading.Thread(target=wait, args=(promise,)) for promise in promises for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        Path("/nowhere").stat()  # the error is raised in the writer's thread
    except OSError as error:
        for promise in promises:
            promise.set_exception(error)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len({id(error) for error, _ in seen}) == 16
    assert {tuple(frames) for _, frames in seen} == {
        ("wait", "result", "test_each_waiter_gets_a_separate_error", "stat")
    }


def test_a_wait_with_a_timeout():
    """
    A wait with a timeout raises an error when the timeout has passed.

    A later wait gets the value.
    """
    promise: Promise[int] = Promise(Runtime())
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        promise.result(0.01)
    promise.set_result(7)
    assert promise.result(0) == 7


def test_calls_in_order():
    """
    Callbacks are called in the order in which they were added, once the promise is set.

    A callback that is added later is called at once.
    """
    promise: Promise[int] = Promise(Runtime())
    told: list[int] = []
    for number in range(3):
        promise.add_done_callback(lambda kept, number=number: told.append(number + kept.result()))
    assert told == []
    promise.set_result(10)
    promise.add_done_callback(lambda kept: told.append(kept.result()))
    assert told == [10, 11, 12, 10]


def test_a_callback_is_called_once():
    """
    If a callback is added while another thread sets the promise, the callback is called exactly once.
    """
    for _ in range(200):
        promise: Promise[int] = Promise(Runtime())
        told: list[int] = []
        both = threading.Barrier(2)

        def keep(promise: Promise[int] = promise, both: threading.Barrier = both) -> None:
            both.wait(PATIENCE_S)
            promise.set_result(1)

        thread = threading.Thread(target=keep)
        thread.start()
        both.wait(PATIENCE_S)
        for number in range(20):
            promise.add_done_callback(lambda _kept, number=number, told=told: told.append(number))
        thread.join()
        assert sorted(told) == list(range(20))
