"""
Executors: their threads, the order of their callbacks, and full queues.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import (
    ClosedError,
    ExecutorFullError,
    InlineExecutor,
    PoolExecutor,
    TimerWheel,
    TooManyTimersError,
    background,
    with_cancel,
)
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 20.0


class Rig:
    """
    A wheel on a manual clock, whose callbacks run in an executor.
    """

    def __init__(self, executor: Any, make_wheel: Callable[[], Any]) -> None:
        self.clock = ManualClock()
        self.errors: list[BaseException] = []
        self.executor = executor
        self.wheel = TimerWheel(
            wheel=make_wheel(),
            clock=self.clock,
            executor=executor,
            on_error=lambda error, _: self.errors.append(error),
            on_expire=lambda key, value: value(key),
        )


@pytest.fixture(params=["native", "heap"])
def make_rig(request: pytest.FixtureRequest) -> Callable[[Any], Rig]:
    kind: Callable[[], Any] = HeapWheel if request.param == "heap" else lambda: None
    return lambda executor: Rig(executor, kind)


def in_order(count: int) -> tuple[list[int], threading.Event, Callable[[int], None]]:
    """
    Return a list, an event and a function that appends an item to the list.

    The event is set when the list has *count* items.
    """
    got: list[int] = []
    signal = threading.Event()

    def add(item: int) -> None:
        got.append(item)
        if len(got) == count:
            signal.set()

    return got, signal, add


def test_callbacks_run_in_workers(make_rig):
    """
    Callbacks of timers, keys and series run in workers with their arguments, and never in the driver's thread.
    """
    with PoolExecutor(workers=3, name="mine") as pool:
        rig = make_rig(pool)
        got, signal, add = in_order(5)
        threads: set[str] = set()

        def work(item: Any) -> None:
            threads.add(threading.current_thread().name)
            add(item)

        for number in range(3):
            rig.wheel.call_later(1, work, number)
        rig.wheel.set("key", work, 1)
        rig.wheel.call_every(1, work, "series", times=1)
        rig.clock.advance(1)
        assert signal.wait(PATIENCE_S)
        assert set(got) == {0, 1, 2, "key", "series"}
        assert threads <= {"mine-0", "mine-1", "mine-2"}
    assert pool.stats()["executor_ran"] == 5


def test_one_worker_keeps_order(make_rig):
    """
    With one worker, callbacks run one after another, in the order in which they became due.
    """
    with PoolExecutor(workers=1) as pool:
        rig = make_rig(pool)
        got, signal, add = in_order(500)
        for number in range(500):
            rig.wheel.call_later(1 + number // 10, add, number)
        rig.clock.advance(60)
        assert signal.wait(PATIENCE_S)
        assert got == list(range(500))


def test_a_slow_callback_delays_no_other(make_rig):
    """
    While one callback blocks, other callbacks run, and the driver continues.
    """
    may_end = threading.Event()
    with PoolExecutor(workers=2) as pool:
        rig = make_rig(pool)
        _, signal, add = in_order(50)
        rig.wheel.call_later(1, may_end.wait, PATIENCE_S)
        for number in range(50):
            rig.wheel.call_later(2, add, number)
        rig.clock.advance(2)
        assert signal.wait(PATIENCE_S)
        may_end.set()
    assert pool.stats()["executor_ran"] == 51


def blocked(rig: Rig, pool: PoolExecutor, waiting: int) -> tuple[threading.Event, list[int]]:
    """
    Block the only worker of *pool*, and put *waiting* callbacks into the queue.

    Return an event that releases the worker, and the list of calls.
    """
    begun, may_end = threading.Event(), threading.Event()
    ran: list[int] = []

    def block() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)

    rig.wheel.call_later(0, block)
    rig.clock.advance(0)
    assert begun.wait(PATIENCE_S)
    for number in range(waiting):
        rig.wheel.call_later(0, ran.append, number)
    rig.clock.advance(0)
    assert pool.stats()["executor_waiting"] == waiting
    return may_end, ran


def test_full_and_rejected(make_rig):
    """
    With the policy "reject", a full pool does not run a further callback, and `on_error` gets an error.
    """
    with PoolExecutor(workers=1, queue_max=2, when_full="reject") as pool:
        rig = make_rig(pool)
        may_end, ran = blocked(rig, pool, 2)
        timer = rig.wheel.call_later(0, ran.append, 2)
        rig.clock.advance(0)
        (error,) = rig.errors
        assert isinstance(error, ExecutorFullError)
        assert (error.queue_max, error.is_transient) == (2, True)
        assert "2 callbacks" in str(error)
        assert (timer.pending(), timer.cancelled()) == (False, False)
        may_end.set()
    assert ran == [0, 1]
    assert pool.stats()["executor_rejected"] == 1


def test_full_and_run_by_the_caller(make_rig):
    """
    With the policy "run", a full pool runs each further callback in the driver's thread.
    """
    with PoolExecutor(workers=1, queue_max=1, when_full="run") as pool:
        rig = make_rig(pool)
        may_end, ran = blocked(rig, pool, 1)
        threads: list[threading.Thread] = []
        rig.wheel.call_later(0, lambda: threads.append(threading.current_thread()))
        rig.clock.advance(0)
        assert threads == [threading.current_thread()]
        assert ran == []
        may_end.set()
    assert ran == [0]


def test_full_and_blocked(make_rig):
    """
    With the policy "block", a full pool blocks the driver until there is room, and no callback is lost.
    """
    with PoolExecutor(workers=1, queue_max=1, when_full="block") as pool:
        rig = make_rig(pool)
        may_end, ran = blocked(rig, pool, 1)
        rig.wheel.call_later(0, ran.append, 1)
        driver = threading.Thread(target=rig.clock.advance, args=(0,))
        driver.start()
        driver.join(0.01)
        assert driver.is_alive()
        may_end.set()
        driver.join(PATIENCE_S)
        assert not driver.is_alive()
    assert ran == [0, 1]


def test_closed_while_blocked(make_rig):
    """
    If a pool is closed while a driver waits for room in it, the driver gets an error, and continues.
    """
    pool = PoolExecutor(workers=1, queue_max=1)
    rig = make_rig(pool)
    may_end, ran = blocked(rig, pool, 1)
    rig.wheel.call_later(0, ran.append, 1)
    driver = threading.Thread(target=rig.clock.advance, args=(0,))
    driver.start()
    pool.close()
    driver.join(PATIENCE_S)
    may_end.set()
    assert pool.join(PATIENCE_S)
    assert ran == [0]
    assert [type(error) for error in rig.errors] == [ClosedError]


@pytest.mark.parametrize("act", ["close", "attach", "set_wall", "step_wall"])
def test_acting_while_the_driver_is_blocked(make_rig, act):
    """
    While a driver waits for room in a pool, a callback may close or make a wheel, or set the wall clock.
    """
    pool = PoolExecutor(workers=1, queue_max=1)
    rig = make_rig(pool)
    begun, is_blocked, done = threading.Event(), threading.Event(), threading.Event()
    wait = pool._queue.has_room.wait

    def wait_for_room() -> None:
        is_blocked.set()
        wait()

    def first() -> None:
        begun.set()
        is_blocked.wait(PATIENCE_S)
        {
            "close": rig.wheel.close,
            "attach": lambda: TimerWheel(clock=rig.clock),
            "set_wall": lambda: rig.clock.set_wall(5),
            "step_wall": lambda: rig.clock.step_wall(5),
        }[act]()
        done.set()

    rig.wheel.call_later(0, first)
    rig.clock.advance(0)
    assert begun.wait(PATIENCE_S)
    pool._queue.has_room.wait = wait_for_room
    for _ in range(3):
        rig.wheel.call_later(1, int)
    moving = threading.Thread(target=rig.clock.advance, args=(1,), daemon=True)
    moving.start()
    assert done.wait(PATIENCE_S)
    moving.join(PATIENCE_S)
    assert not moving.is_alive()
    pool.close()


def test_close_calls_waiting_callbacks(make_rig):
    """
    A closed pool still runs its waiting callbacks, and refuses further callbacks.
    """
    pool = PoolExecutor(workers=1)
    rig = make_rig(pool)
    may_end, ran = blocked(rig, pool, 5)
    pool.close()
    pool.close()
    may_end.set()
    assert pool.join(PATIENCE_S)
    assert ran == [0, 1, 2, 3, 4]
    rig.wheel.call_later(0, ran.append, 5)
    rig.clock.advance(0)
    assert [type(error) for error in rig.errors] == [ClosedError]


def test_errors_in_workers(make_rig, monkeypatch):
    """
    If a callback in a worker raises an Exception, `on_error` gets it. `threading.excepthook` gets other exceptions.
    """
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def leave() -> None:
        raise SystemExit

    with PoolExecutor(workers=1) as pool:
        rig = make_rig(pool)
        got, signal, add = in_order(1)
        rig.wheel.call_later(0, lambda: 1 // 0)
        rig.wheel.call_later(0, leave)
        rig.wheel.call_later(0, add, 1)
        rig.clock.advance(0)
        assert signal.wait(PATIENCE_S)
    assert [type(error) for error in rig.errors] == [ZeroDivisionError]
    assert [args.exc_type for args in told] == [SystemExit]
    assert got == [1]


def test_restarted_while_it_waits_for_a_worker(make_rig):
    """
    If a timer is restarted while it waits for a worker, its callback runs once, at the new deadline.
    """
    with PoolExecutor(workers=1) as pool:
        rig = make_rig(pool)
        may_end, ran = blocked(rig, pool, 0)
        timer = rig.wheel.call_later(0, ran.append, 1)
        rig.clock.advance(0)
        assert timer.restart(5)
        may_end.set()
        got, signal, add = in_order(1)
        rig.wheel.call_later(0, add, 1)
        rig.clock.advance(0)
        assert signal.wait(PATIENCE_S)
        assert (ran, timer.pending(), got) == ([], True, [1])
        rig.clock.advance(5)
    assert ran == [1]


def test_restarted_and_due_before_the_call_ends(make_rig):
    """
    If a timer is restarted and becomes due while its callback still runs, the callback is then called again.
    """
    with PoolExecutor(workers=1) as pool:
        rig = make_rig(pool)
        got, signal, add = in_order(3)

        def again() -> None:
            if len(got) < 2:
                assert timer.restart(1)
                rig.clock.advance(1)
                assert pool.stats()["executor_waiting"] == 1
            add(len(got))

        timer = rig.wheel.call_later(1, again)
        rig.clock.advance(1)
        assert signal.wait(PATIENCE_S)
    assert got == [0, 1, 2]
    assert (timer.pending(), timer.callback, rig.wheel.stats()["fires"]) == (False, None, 3)


def test_a_context_ends_waiting_timers(make_rig):
    """
    If a context ends while its timer waits for a worker, the timer's callback is not called.
    """
    with PoolExecutor(workers=1) as pool:
        rig = make_rig(pool)
        context = with_cancel(background(rig.wheel))
        go, ran = threading.Event(), []
        rig.wheel.call_later(1, go.wait, PATIENCE_S)
        context.call_later(2, ran.append, "of the context")
        rig.wheel.call_later(3, ran.append, "of the wheel")
        rig.clock.advance(3)
        context.cancel()
        go.set()
    assert ran == ["of the wheel"]


def test_a_series_never_runs_twice_at_once(make_rig):
    with PoolExecutor(workers=4) as pool:
        rig = make_rig(pool)
        at_once, most = 0, 0
        lock = threading.Lock()
        signal = threading.Event()

        def work() -> None:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            rig.clock.monotonic()
            with lock:
                at_once -= 1
            if series.fired == 20:
                signal.set()

        series = rig.wheel.call_every(1, work, missed="burst", times=20)
        while not signal.wait(0.001):
            rig.clock.advance(1)
        assert (most, series.fired) == (1, 20)


def test_slow_callbacks_are_reported(make_rig):
    """
    If a callback takes longer than `slow_s`, every executor reports the timer and the length of the call.
    """
    for make in (InlineExecutor, lambda slow_s, on_slow: PoolExecutor(1, slow_s=slow_s, on_slow=on_slow)):
        told: list[tuple[Any, float]] = []
        executor = make(0.005, lambda timer, took_s, told=told: told.append((timer, took_s)))
        rig = make_rig(executor)
        slow = rig.wheel.call_later(0, threading.Event().wait, 0.02)
        rig.wheel.call_later(0, int)
        rig.clock.advance(0)
        if isinstance(executor, PoolExecutor):
            executor.close()
            assert executor.join(PATIENCE_S)
        ((timer, took_s),) = told
        assert timer is slow
        assert took_s > 0.005
        stats = rig.wheel.stats()
        assert (stats["executor_ran"], stats["executor_slow"]) == (2, 1)


def test_slow_callbacks_are_logged(make_rig, caplog):
    """
    Without `on_slow`, the logger tickwheel logs slow callbacks as warnings.
    """
    rig = make_rig(InlineExecutor(0.0))
    rig.wheel.call_later(0, int)
    with caplog.at_level(logging.WARNING, logger="tickwheel"):
        rig.clock.advance(0)
    assert "a callback took 0.0" in caplog.text


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"workers": 0}, ValueError, "workers is 0: pass an integer, 1 or more"),
        ({"workers": "x"}, TypeError, "workers is 'x': pass an integer, 1 or more"),
        ({"queue_max": 0}, ValueError, "queue_max is 0"),
        ({"queue_max": 2.5}, TypeError, "queue_max is 2.5"),
        ({"when_full": "cry"}, ValueError, "when_full is 'cry'"),
    ],
)
def test_bad_options(options, error, text):
    """
    For an invalid number of workers, queue or policy, the error names the argument.
    """
    with pytest.raises(error, match=text):
        PoolExecutor(**options)


def test_an_unreferenced_pool_ends():
    """
    A pool that is no longer referenced ends its workers.
    """
    before = set(threading.enumerate())
    wheel = TimerWheel(clock=ManualClock(), executor=PoolExecutor(workers=2))
    signal = threading.Event()
    wheel.call_later(0, signal.set)
    wheel.clock.advance(0)
    assert signal.wait(PATIENCE_S)
    (worker,) = set(threading.enumerate()) - before
    del wheel
    gc.collect()
    worker.join(PATIENCE_S)
    assert not worker.is_alive()


def test_one_pool_for_two_wheels():
    """
    One pool can serve several wheels, and closing a wheel leaves the pool open.
    """
    with PoolExecutor(workers=1) as pool:
        first, second = (TimerWheel(executor=pool) for _ in range(2))
        got, signal, add = in_order(1)
        first.call_later(0, add, 1)
        assert signal.wait(PATIENCE_S)
        first.close()
        got, signal, add = in_order(1)
        second.call_later(0, add, 2)
        assert signal.wait(PATIENCE_S)
        second.close()
    assert got == [2]


def test_one_of_many_moves_is_refused():
    """
    If `move_many` reaches the limit of pending timers, it refuses a timer. The timers before it are moved and fire.
    """
    fired, refused = threading.Event(), threading.Event()

    def move() -> None:
        wheel.call_later(3600, print)
        with pytest.raises(TooManyTimersError):
            wheel.move_many([far, timer], 0.01)
        refused.set()

    with TimerWheel(max_pending=2, executor=PoolExecutor(workers=2)) as wheel:
        (far,) = wheel.call_later_many([3600], lambda _id: fired.set())
        timer = wheel.call_later(0.05, move)
        assert refused.wait(PATIENCE_S)
        assert fired.wait(PATIENCE_S)
