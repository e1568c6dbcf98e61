"""
A context is kept alive by its descendants, and by callbacks and callers that wait for its end.
"""

from __future__ import annotations

import gc
import random
import threading
import weakref
from functools import partial

import pytest

from tickwheel import ContextCancelledError, TimerWheel, background, with_cancel, with_timeout, with_value
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel

LINKS = 100_000
PATIENCE_S = 60.0


def test_children_without_references_are_forgotten():
    """
    A long-lived parent keeps a child alive only if other code refers to the child or waits for its end.
    """
    wheel = TimerWheel(clock=ManualClock())
    parent = with_timeout(background(wheel), 60)
    waiting = parent.ending.waiting
    for number in range(100):
        parent.with_value("user", number)
        with_cancel(with_timeout(parent, 61 + number))
    gc.collect()
    assert parent.ending.waiting == waiting


def test_children_without_waits_are_forgotten():
    """
    A wait that is over, an unregistered callback or a fired timer does not keep its context alive.
    """
    clock = ManualClock()
    root = background(TimerWheel(clock=clock))
    for _ in range(100):
        child = with_value(with_cancel(root), "a", 1)
        child.wait(0)
        child.on_end(int)()
        child.call_later(1, int)
    del child
    gc.collect()
    assert root.ending.waiting == 100
    clock.advance(1)
    gc.collect()
    assert root.ending.waiting == 0


@pytest.mark.parametrize("design", [lambda: None, HeapWheel])
def test_cancelled_timers_are_forgotten(design):
    """
    If a timer of a long-lived context is cancelled, the context releases the callback and the arguments.
    """

    class Callback:
        def __call__(self) -> None: ...

    wheel = TimerWheel(wheel=design(), clock=ManualClock())
    context = with_cancel(background(wheel))
    callback = Callback()
    dropped = weakref.ref(callback)
    timer = context.call_later(30, callback)
    del callback
    assert timer.cancel()
    assert dropped() is None
    many = [context.call_at(wheel.time() + 30, int) for _ in range(10)]
    assert wheel.cancel_many(many) == 10
    assert context.ending.waiting == len(context.ending._kept) == 0


def test_unreferenced_contexts_call_their_callbacks():
    """
    If a context is no longer referenced, its `on_end` callbacks are still called once when it ends.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    root = background(wheel)
    called: list[str] = []
    with_value(with_cancel(with_value(root, "a", 1)), "b", 2).on_end(partial(called.append, "deep"))
    with_cancel(root).on_end(partial(called.append, "flat"))
    timer = with_cancel(with_cancel(root)).call_later(5, called.append, "late")
    with_cancel(with_timeout(root, 2)).on_end(partial(called.append, "timed"))
    gc.collect()
    clock.advance(2)
    assert called == ["timed"]
    gc.collect()
    root.cancel()
    assert called == ["timed", "deep", "flat"]
    assert timer.cancelled()
    assert len(wheel) == 0


def test_the_cancel_method_alone_cancels_its_context():
    """
    If only the `cancel` method of a context is referenced, calling it still cancels the context and its descendants.
    """
    root = background()
    context = with_cancel(root)
    below, cancel = with_value(context, "a", 1), context.cancel
    del context
    gc.collect()
    assert cancel("enough")
    assert isinstance(below.err(), ContextCancelledError)
    assert not root.done()


def test_a_tree_without_references_is_freed():
    """
    A tree of contexts is freed once the last reference to a living context of the tree is gone.
    """

    class Watched:
        def __del__(self) -> None:
            dropped.append(1)

        def end(self) -> None:
            """
            Do nothing: this is the callback of a context that never ends.
            """

    dropped: list[int] = []
    root = background()
    ended, lasting = with_cancel(root), with_value(root, "a", 1)
    with_cancel(root).on_end(Watched().end)
    ended.cancel()
    del root
    gc.collect()
    assert dropped == []
    del lasting
    gc.collect()
    assert dropped == [1]
    assert ended.done()


@pytest.mark.parametrize("waits", [False, True])
def test_a_chain_is_dropped(waits):
    """
    A chain of 100,000 contexts is freed once its last context is no longer referenced.

    If the last context has a callback, the chain is kept until its root is no longer referenced.
    """
    root = context = background()
    for _ in range(LINKS):
        context = with_cancel(context)
    dropped = weakref.ref(context.ending)
    if waits:
        context.on_end(int)
        del root
    del context
    gc.collect()
    assert dropped() is None
    assert waits or not root.ending.waiting


def test_threads_that_make_and_drop_children():
    """
    Several threads make and drop contexts below one root. When the root ends, each registered callback is called once.
    """
    root = background()
    called: list[int] = []
    expected: list[int] = []

    def use(thread: int) -> None:
        chance = random.Random(thread)
        for number in range(thread, 8_000, 4):
            context = with_value(with_cancel(root), "a", number)
            forget = context.on_end(partial(called.append, number))
            match chance.randrange(4):
                case 0:
                    forget()
                case 1:
                    context.cancel()
                    expected.append(number)
                case _:
                    expected.append(number)
            if chance.randrange(500) == 0:
                gc.collect(0)

    threads = [threading.Thread(target=use, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    del threads, thread
    gc.collect()
    assert root.ending.waiting == len(expected) - len(called)
    assert root.cancel()
    assert sorted(called) == sorted(expected)
    assert root.ending.waiting == len(root.ending._kept) == 0


def test_a_waiting_callback_is_held_until_its_call():
    """
    An `on_end` callback is called even if the garbage collector runs while the contexts are ending.
    """
    root = background()
    called: list[str] = []
    root.on_end(gc.collect)
    with_cancel(with_cancel(root)).on_end(partial(called.append, "below"))
    below = with_cancel(root)
    below.on_end(gc.collect)
    with_cancel(with_cancel(below)).on_end(partial(called.append, "further below"))
    del below
    assert root.cancel()
    assert called == ["below", "further below"]
