"""
The callbacks of a turn of the loop, their order, and errors in them.
"""

from __future__ import annotations

import asyncio
import gc
import math
import random
import sys
import time
import warnings
import weakref
from contextlib import ExitStack, closing
from fractions import Fraction
from unittest import mock

import pytest

from tickwheel.aio import EventLoop, run, timeout


def test_due_exactly_at_its_time(still):
    """
    A timer is called exactly at its time, and not one float step earlier.
    """
    draw = random.Random(7)
    for _ in range(200):
        fired = []
        when = still.now + draw.choice([1e-9, 1e-6, 1e-3, 1.0, 1e5]) * draw.random()
        still.call_at(when, fired.append, 1)
        still.now = math.nextafter(when, -math.inf)
        still.turn()
        assert fired == []
        still.now = when
        still.turn()
        assert fired == [1]


def test_in_order(still):
    """
    Timers of one turn run in order of their times.

    Timers with the same time run in the order in which they were set.
    """
    draw = random.Random(8)
    fired = []
    delays = [draw.choice([1, 2, 2, 3, 1.5]) for _ in range(500)]
    for place, delay in enumerate(delays):
        still.call_later(delay, fired.append, place)
    still.move(5)
    assert fired == sorted(range(500), key=lambda place: (delays[place], place))


def test_a_turn_runs_only_timers_that_were_set_before_it(still):
    """
    If a callback sets a timer, the timer runs in a later turn, even if its delay is zero.
    """
    fired = []

    def again():
        fired.append(1)
        still.call_later(0, again)
        still.call_later(-1, again)

    still.call_later(0, again)
    still.turn()
    still.turn()
    assert len(fired) in {1, 3}  # stop() may run before or after the next turn
    still.turn()
    assert len(fired) > 2


def test_a_sibling_can_be_cancelled(still):
    """
    A callback can cancel its own timer, and earlier and later timers of the same turn.
    """
    fired = []
    handles = []

    def act(place):
        fired.append(place)
        for handle in handles[place : place + 3]:
            handle.cancel()

    handles += [still.call_later(1, act, place) for place in range(9)]
    still.move(1)
    assert fired == [0, 3, 6]


def test_errors_go_to_the_handler(still):
    """
    If a callback raises, the exception handler gets the exception and the handle.

    The other timers of the turn run.
    """
    told, fired = [], []
    still.set_exception_handler(lambda _, context: told.append(context))
    handle = still.call_later(1, lambda: 1 / 0)
    still.call_later(1, fired.append, 1)
    still.call_soon(lambda: 1 // 0)
    still.move(1)
    assert fired == [1]
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError, ZeroDivisionError]
    assert told[1]["handle"] is handle
    assert told[1]["message"].startswith("Exception in callback test_errors_go_to_the_handler")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupt_and_exit_leave_the_loop(still, error):
    """
    KeyboardInterrupt and SystemExit leave the loop, and the remaining callbacks of the turn stay scheduled.
    """
    fired = []

    def end():
        raise error

    still.call_later(1, end)
    still.call_later(1, fired.append, 1)
    still.now += 1
    with pytest.raises(error):
        still.run_forever()
    assert fired == []
    still.turn()
    assert fired == [1]


@pytest.mark.parametrize("delay", [0, 1, -5, True, 2**53, 2**53 + 1, -(2**53) - 1, 2**64, 10**300])
def test_an_int_is_added_as_python_does(still, delay):
    """
    A timer with an integer delay of any size is due at the exact sum of the loop's time and the delay.
    """
    still.now = 1234.1
    handle = still.call_later(delay, print)
    assert handle.when() == 1234.1 + delay
    assert type(handle.when()) is float


def test_an_int_that_no_float_holds(still):
    """
    An integer that is too large for a float is refused as by asyncio, and no timer is set.
    """
    with pytest.raises(OverflowError):
        still.call_later(10**400, print)
    assert not still._scheduled


def test_an_int_costs_no_more_than_a_float(loop):
    """
    With an integer, call_later and timeout run no Python code, as with a float.
    """
    called = []

    async def use(delay):
        sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
        try:
            loop.call_later(delay, print).cancel()
            timeout(delay)
        finally:
            sys.setprofile(None)

    loop.run_until_complete(use(60.0))  # a loop's first timeout examines its clock
    for delay in (60.0, 60):
        called.clear()
        loop.run_until_complete(use(delay))
        assert called == []
    loop.run_until_complete(use(Fraction(60)))
    assert "time" in called  # the watch sees such calls


def test_time_can_be_frozen_and_thawed(loop):
    """
    If a test patches `loop.time`, the loop uses the patched function only while the patch lasts.
    """
    fired = []
    with mock.patch.object(loop, "time", return_value=1e6):
        assert loop.call_later(5, fired.append, 1).when() == 1e6 + 5
        loop.time.return_value = 1e6 + 5
        loop.call_soon(loop.stop)
        loop.run_forever()
    assert fired == [1]
    assert loop.call_later(5, fired.append, 1).when() == pytest.approx(time.monotonic() + 5, abs=1)


def test_a_frozen_monotonic_clock_counts(loop):
    """
    The loop reads a patched `time.monotonic`, as asyncio's loops do.
    """
    with mock.patch("time.monotonic", return_value=1e6):
        assert loop.call_later(5, print).when() == 1e6 + 5
    assert loop.call_later(5, print).when() == pytest.approx(time.monotonic() + 5, abs=1)


def still_time(_loop):
    return 1e6


FROZEN = {
    "time.monotonic": lambda: mock.patch("time.monotonic", return_value=1e6),
    "another of its functions": lambda: mock.patch("time.monotonic", time.process_time),
    "the loops' time": lambda: mock.patch.object(asyncio.BaseEventLoop, "time", still_time),
    "the module asyncio sees": lambda: mock.patch(
        "asyncio.base_events.time", mock.Mock(**{"monotonic.return_value": 1e6})
    ),
}


@pytest.mark.parametrize("frozen", [name for name in FROZEN if "module" not in name])
def test_time_may_be_frozen_before_the_loop_is_made(frozen):
    """
    If a test patches the clock before it makes a loop, the loop uses the patched clock only while the patch lasts.
    """
    with ExitStack() as stack:
        with FROZEN[frozen]():
            made = stack.enter_context(closing(EventLoop()))
            assert made.call_later(5, print).when() == pytest.approx(made.time() + 5, abs=1)
        assert made.call_later(5, print).when() == pytest.approx(time.monotonic() + 5, abs=1)


@pytest.mark.parametrize("frozen", FROZEN)
@pytest.mark.parametrize("is_first", [True, False])
def test_timeouts_on_a_loop_of_asyncio_whose_time_is_frozen(frozen, is_first):
    """
    A timeout on one of asyncio's own loops follows `loop.time()`, even if a test has patched the module `time`.
    """

    async def main():
        async with timeout(60) as entered:
            return entered.when() - asyncio.get_running_loop().time()

    with closing(asyncio.SelectorEventLoop()) as loop:
        if not is_first:
            assert loop.run_until_complete(main()) == pytest.approx(60, abs=1)
        with FROZEN[frozen]():
            assert loop.run_until_complete(main()) == pytest.approx(60, abs=1)
            with mock.patch.object(loop, "time", return_value=7.0):
                assert loop.run_until_complete(main()) == 60
        assert loop.run_until_complete(main()) == pytest.approx(60, abs=1)


def test_a_subclass_can_watch_call_at(loop):
    """
    call_later calls an overridden or patched call_at, as in asyncio.
    """
    seen = []

    class Watching(EventLoop):
        def call_at(self, when, callback, *args, context=None):
            seen.append((callback, args))
            return super().call_at(when, callback, *args, context=context)

    watching = Watching()
    watching.call_later(1, print, 2)
    watching.close()
    assert seen == [(print, (2,))]
    with mock.patch.object(loop, "call_at") as patched:
        loop.call_later(1, print)
    assert patched.called


def test_a_patched_run_is_called(still):
    """
    A patched `Handle._run`, as debuggers install it, is called for every callback.
    """
    fired = []
    still.call_later(1, fired.append, 1)
    still.call_soon(fired.append, 2)
    with mock.patch.object(asyncio.Handle, "_run", autospec=True) as patched:
        still.call_soon(fired.append, 3)
        still.now += 1
        still._deliver()
        still._run_ready()
    assert patched.call_count == 3
    assert fired == []


def test_scheduled_can_be_walked(still):
    """
    `_scheduled` is a sequence of the pending handles, with the earliest first.

    It can be cleared.
    """
    handles = [still.call_later(delay, print) for delay in (3, 1, 2)]
    handles[0].cancel()
    assert list(still._scheduled) == still._scheduled[:] == [handles[1], handles[2]]
    assert still._scheduled == [handles[1], handles[2]]
    assert still._scheduled[0] is handles[1]
    assert handles[2] in still._scheduled
    assert len(still._scheduled) == 2
    still._scheduled.clear()
    assert not still._scheduled
    assert not handles[1].cancelled()
    still.move(5)


def test_close_clears_the_timers():
    """
    A closed loop has no timers and refuses new timers.

    Cancelling the loop's old timers has no effect.
    """
    loop = EventLoop()
    handle = loop.call_later(1, print)
    loop.close()
    loop.close()
    assert len(loop._scheduled) == 0
    handle.cancel()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_later(1, print)


def test_a_closed_loop_is_in_no_reference_cycle():
    """
    A closed loop is freed with its last reference, without the garbage collector, even if it had timeouts.
    """

    async def main():
        async with timeout(1):
            await asyncio.sleep(0)

    loop = EventLoop()
    loop.run_until_complete(main())
    loop.close()
    watch = weakref.ref(loop)
    gc.collect()
    gc.disable()
    try:
        del loop
        assert watch() is None
    finally:
        gc.enable()


def test_debug_mode_traces_and_checks(loop):
    """
    In debug mode a handle records where it was set, and coroutines are refused as callbacks.
    """
    loop.set_debug(True)
    handle = loop.call_later(1, print, "words")
    assert handle._source_traceback[-1].name == "test_debug_mode_traces_and_checks"
    handle.cancel()
    assert "print" in repr(handle)
    with pytest.raises(TypeError, match="a callable object"):
        loop.call_later(1, "nothing")
    loop.set_debug(False)
    assert loop.call_later(1, print)._source_traceback is None


def test_random_operations(still):
    """
    If timers are set and cancelled at random, each turn fires the due timers in the order of a sorted list.

    After each turn the wheel's invariants hold.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    draw = random.Random(seed)
    pending, fired = {}, []
    for number in range(10_000):
        act = draw.random()
        if act < 0.6:
            delay = draw.choice([-1, 0, 1e-6, 1, 100, 1e6]) * draw.random()
            pending[number] = still.call_later(delay, fired.append, number)
        elif act < 0.9 and pending:
            pending.pop(draw.choice(list(pending))).cancel()
        elif act > 0.97:
            due = sorted(pending, key=lambda place: (pending[place].when(), place))
            still.now += draw.choice([1e-9, 1e-3, 10, 1e5])
            due = [place for place in due if pending[place].when() <= still.now]
            fired.clear()
            still.turn()
            still.turn()
            assert fired == due
            for place in due:
                del pending[place]
            still._check_timers()
    assert len(still._scheduled) == len(pending)


@pytest.mark.realtime
def test_sixty_thousand_are_never_early(loop):
    """
    Sixty thousand timers of 0 to 50 ms on the real clock all fire.

    No timer is early by the clock that its callback reads.
    """
    draw = random.Random(9)
    late = []

    def note(when):
        late.append(time.monotonic() - when)

    async def main():
        for _ in range(60):
            for _ in range(1000):
                handle = loop.call_later(draw.uniform(0, 0.05), lambda: None)
                loop.call_at(handle.when(), note, handle.when())
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)

    loop.run_until_complete(main())
    assert len(late) == 60_000
    assert min(late) >= 0


def test_run_returns_the_result():
    async def main():
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop())

    assert run(main()) is EventLoop
    gc.collect()


@pytest.mark.parametrize("is_debug", [False, True])
def test_a_task_that_raised_is_not_kept(is_debug):
    """
    After a task has raised, the loop refers to neither the task nor its exception, even in debug mode.
    """
    raised = []

    class NotedError(Exception): ...

    async def fail():
        error = NotedError()
        raised.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    async def wait():
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        assert isinstance(task.exception(), NotedError)
        del task
        await asyncio.sleep(0)
        return raised[0]()

    gc.disable()
    try:
        with asyncio.Runner(loop_factory=EventLoop, debug=is_debug) as runner:
            assert runner.run(wait()) is None
    finally:
        gc.enable()


def test_run_inside_a_loop():
    """
    On a thread with a running loop, `run` raises an error that names the remedy, before it makes a loop.
    """

    async def inner():
        return 1

    async def outer():
        coroutine = inner()
        with pytest.raises(RuntimeError, match="await the coroutine"):
            run(coroutine)
        return await coroutine

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(outer()) == 1
