"""
The handles that the loop returns behave like asyncio's, attribute by attribute.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import weakref

import pytest

from tickwheel.errors import InvalidDelayError

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


def nothing(*_args): ...


class Thing: ...


@pytest.mark.parametrize("delay", [0, -1, 0.0, 5, 5.5, math.inf])
def test_a_handle_is_a_real_one(still, delay):
    """
    With any delay, `call_later` returns a TimerHandle whose attributes equal those of asyncio's handle.
    """
    handle = still.call_later(delay, nothing, 1, "two")
    assert isinstance(handle, asyncio.TimerHandle)
    assert handle.when() == handle._when == still.now + delay
    assert (handle._callback, handle._args, handle._loop) == (nothing, (1, "two"), still)
    assert handle._scheduled is True
    assert handle._cancelled is handle.cancelled() is False
    assert handle._source_traceback is None
    assert isinstance(handle._context, contextvars.Context)
    assert repr(handle).startswith(f"<TimerHandle when={handle._when}")


def test_cancel_drops_the_callback_at_once(still):
    """
    A cancelled timer leaves the loop and drops its callback and arguments.

    `when()` and a second cancel still work.
    """
    thing = Thing()
    watch = weakref.ref(thing)
    handle = still.call_later(1, nothing, thing)
    when = handle.when()
    del thing
    assert watch() is not None
    handle.cancel()
    handle.cancel()
    assert watch() is None
    assert len(still._scheduled) == 0
    assert (handle.cancelled(), handle._callback, handle._args, handle._scheduled) == (True, None, None, False)
    assert handle.when() == when
    still.move(2)


def test_a_handle_returns_the_time_that_was_passed(still):
    """
    `when()` returns the time that was passed: a float as the same object, and a value of another type unchanged.
    """
    when = int(still.now) + 5
    assert type(still.call_at(when, nothing).when()) is int
    assert type(still.call_at(float(when), nothing).when()) is float


def test_handles_compare_as_in_asyncio(still):
    """
    Handles are ordered by time, can be hashed, and can be weakly referenced.
    """
    early, late = still.call_later(1, nothing), still.call_later(2, nothing)
    assert early < late
    assert late >= early
    assert early != late
    assert {early: 1}[early] == 1
    assert weakref.ref(early)() is early


@pytest.mark.parametrize("bad", [None, "1", object()])
def test_a_time_that_is_not_a_number_is_refused(loop, bad):
    """
    A delay or time that is not a number raises a TypeError, and no timer is set.
    """
    with pytest.raises(TypeError):
        loop.call_later(bad, nothing)
    with pytest.raises(TypeError):
        loop.call_at(bad, nothing)
    assert len(loop._scheduled) == 0


def test_nan_is_refused(loop):
    with pytest.raises(InvalidDelayError, match="delay is nan"):
        loop.call_later(math.nan, nothing)
    with pytest.raises(ValueError, match="when is nan"):
        loop.call_at(math.nan, nothing)


def test_arguments_by_name(still):
    """
    Time and callback may be passed by name, as in asyncio.

    An unknown name raises a TypeError.
    """
    assert still.call_later(delay=1, callback=nothing).when() == still.now + 1
    assert still.call_at(when=7.0, callback=nothing).when() == 7.0
    with pytest.raises(TypeError, match="misses an argument"):
        still.call_later(1)
    with pytest.raises(TypeError, match="got slack"):
        still.call_later(1, nothing, slack=1)


def test_the_context_is_captured(still):
    """
    A callback runs in a copy of the context in which the timer was set, or in the context that was passed.
    """
    seen = []

    def look():
        seen.append(VARIABLE.get())
        VARIABLE.set(-1)

    for value in (1, 2):
        VARIABLE.set(value)
        still.call_later(1, look)
    context = contextvars.copy_context()
    context.run(VARIABLE.set, 3)
    handle = still.call_later(1, look, context=context)
    assert handle._context is context
    VARIABLE.set(0)
    still.move(1)
    assert seen == [1, 2, 3]
    assert context[VARIABLE] == -1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cycle_through_a_timer_is_collected(loop):
    """
    If a loop with pending timers is dropped, the loop and the objects of its timers are collected.

    Python 3.14 may finalize the loop's sockets before the loop, in which case asyncio's part of `close` fails.
    """
    loop.close()
    watches = []

    def drop():
        own = type(loop)()
        thing = Thing()
        thing.handle = own.call_later(3600, nothing, thing)
        watches.extend([weakref.ref(thing), weakref.ref(own)])
        del thing, own  # collected between here and the next line
        gc.collect()  # closes the loop; after that, the collector sees the handle

    with pytest.warns(ResourceWarning) as warned:
        drop()
    messages = [str(each.message) for each in warned]
    del warned  # the warning refers to its source, the loop
    gc.collect()
    assert [watch() for watch in watches] == [None, None]
    assert any("unclosed event loop" in message for message in messages)


def test_timers_are_dropped_where_a_socket_fails_to_close(loop):
    """
    If asyncio's part of `close` fails, the loop still drops the objects of its timers.
    """
    thing = Thing()
    thing.handle = loop.call_later(3600, nothing, thing)
    watch = weakref.ref(thing)
    del thing
    loop._close_self_pipe = refuse
    with pytest.raises(OSError, match="as if"):
        loop.close()
    gc.collect()
    assert watch() is None
    del loop._close_self_pipe
    loop.close()
    assert loop.is_closed()


def refuse():
    raise OSError("as if it were closed")


@pytest.mark.parametrize("end", ["fire", "cancel"])
def test_a_cycle_through_an_ended_timer_is_collected(still, end):
    """
    An object may keep the handle of its own timer.

    When the timer has fired or was cancelled, the garbage collector can free the object.
    """
    thing = Thing()
    thing.handle = still.call_later(1, nothing, thing)
    watch = weakref.ref(thing)
    if end == "cancel":
        thing.handle.cancel()
    else:
        still.move(1)
    del thing
    gc.collect()
    assert watch() is None


def test_pending_timers_are_not_walked_one_by_one(loop):
    """
    While handles are pending, the garbage collector does not see them.

    After the timers fired or were cancelled, the garbage collector sees their handles.
    """
    handle = loop.call_later(3600, nothing)
    assert not gc.is_tracked(handle)
    handle.cancel()
    assert gc.is_tracked(handle)


def test_a_context_that_was_read_is_visible_to_the_collector(loop):
    """
    After a handle's context was read, the garbage collector tracks the context.
    """
    assert gc.is_tracked(loop.call_later(3600, nothing)._context)
    gc.collect()


def test_a_foreign_loop_in_the_handle_does_no_harm(still, loop):
    """
    If `_loop` of a handle was set to another loop, cancelling the handle affects no timer of that loop.
    """
    other = loop.call_later(3600, nothing)
    handle = still.call_later(1, nothing)
    handle._loop = loop
    handle.cancel()
    assert not other.cancelled()
    assert len(loop._scheduled) == 1
    still.move(2)
