"""
A context ends once: if it is cancelled, if its deadline passes, or if its parent ends. Its descendants end, too.
"""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from functools import partial
from typing import Any

import pytest

from tickwheel import (
    ClosedError,
    ContextCancelledError,
    DeadlineExceededError,
    InvalidDelayError,
    TickwheelError,
    TimerWheel,
)
from tickwheel.testing import ManualClock
from tickwheel.timers.contexts import background, with_cancel, with_deadline, with_timeout, with_value

PATIENCE_S = 20.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def wheel(clock: ManualClock) -> TimerWheel:
    return TimerWheel(clock=clock)


def test_the_background_lasts():
    """
    A root context has no deadline and no value, and ends only if it is cancelled.
    """
    root = background()
    assert (root.done(), root.err(), root.deadline(), root.remaining(), root.value("a")) == (
        False,
        None,
        None,
        None,
        None,
    )
    root.raise_if_ended()
    assert root.cancel()
    assert root.done()


def test_cancel():
    """
    After a context was cancelled, its reason and its cause never change.
    """
    context = with_cancel(background())
    assert [context.cancel("enough"), context.cancel("again")] == [True, False]
    error = context.err()
    assert isinstance(error, ContextCancelledError)
    assert isinstance(error, TickwheelError)
    assert str(error) == "the context was cancelled: enough"
    assert error.cause == "enough"
    with pytest.raises(ContextCancelledError, match="enough"):
        context.raise_if_ended()


def test_errors_are_new_each_time():
    """
    Two calls of `err` return two error objects, so the errors do not share a traceback.
    """
    context = with_cancel(background())
    context.cancel()
    assert context.err() is not context.err()


def test_a_deadline(clock, wheel):
    """
    A context ends exactly at its deadline, and the reason is the deadline.
    """
    context = with_timeout(background(wheel), 2.0)
    assert context.deadline() == pytest.approx(wheel.time() + 2, abs=1e-6)
    clock.advance(1.5)
    assert context.remaining() == pytest.approx(0.5, abs=1e-6)
    assert not context.done()
    clock.advance(0.499_999)
    assert not context.done()
    clock.advance(0.000_001)
    error = context.err()
    assert isinstance(error, DeadlineExceededError)
    assert isinstance(error, TimeoutError)
    assert error.deadline == context.deadline()
    assert context.remaining() == 0
    assert not context.cancel()
    assert type(context.err()) is DeadlineExceededError


@pytest.mark.parametrize("delay", [0, -1, -1e300, float("-inf")])
def test_a_deadline_that_has_passed(wheel, delay):
    """
    A context that is made with a past deadline has already ended, and sets no timer.
    """
    context = with_timeout(background(wheel), delay)
    assert type(context.err()) is DeadlineExceededError
    assert len(wheel) == 0


def test_no_deadline(wheel):
    """
    A timeout of inf sets neither a deadline nor a timer.
    """
    context = with_timeout(background(wheel), float("inf"))
    assert (context.deadline(), context.done(), len(wheel)) == (None, False, 0)


def test_the_earlier_deadline_counts(clock, wheel):
    """
    A child ends no later than its parent.

    It sets a timer only if its own deadline is before the parent's.
    """
    parent = with_timeout(background(wheel), 5)
    later = with_timeout(parent, 10)
    assert len(wheel) == 1
    earlier = with_deadline(parent, wheel.time() + 1)
    assert len(wheel) == 2
    assert (later.deadline(), earlier.deadline()) == (parent.deadline(), pytest.approx(wheel.time() + 1, abs=1e-6))
    clock.advance(1)
    assert (earlier.done(), later.done(), parent.done()) == (True, False, False)
    clock.advance(4)
    assert [type(each.err()) for each in (later, parent)] == [DeadlineExceededError] * 2


def test_the_end_goes_down_not_up(wheel):
    """
    When a context ends, all its descendants end for the same reason.

    Its parent and its siblings do not end.
    """
    root = background(wheel)
    parent, sibling = with_cancel(root), with_cancel(root)
    children = [with_timeout(with_value(parent, "a", 1), 10), with_cancel(with_cancel(parent))]
    children[1].cancel("only this")
    assert not parent.done()
    parent.cancel("all of these")
    assert [str(child.err()) for child in children] == [
        "the context was cancelled: all of these",
        "the context was cancelled: only this",
    ]
    assert not sibling.done()
    assert not root.done()
    assert len(wheel) == 0, "timers of ended contexts are gone"


def test_a_child_of_an_ended_context(clock, wheel):
    """
    A child that is made from an ended context has ended, too, for the same reason.
    """
    parent = with_timeout(background(wheel), 1)
    clock.advance(1)
    for child in (with_cancel(parent), with_value(parent, 1, 2), with_timeout(parent, 5)):
        assert type(child.err()) is DeadlineExceededError
    assert len(wheel) == 0


def test_values():
    """
    Descendants see the values of their ancestors. The value of the nearest ancestor counts, even if it is None.
    """
    root = with_value(background(), "a", 1)
    below = with_value(with_cancel(with_value(root, "b", 2)), "a", None)
    assert (root.value("a"), root.value("b", "default")) == (1, "default")
    assert (below.value("a", "default"), below.value("b")) == (None, 2)


def test_a_with_block(wheel):
    """
    At the end of a `with` block the context is cancelled, and its timer is released.
    """
    root = background(wheel)
    with with_timeout(root, 60) as context:
        assert len(wheel) == 1
    assert type(context.err()) is ContextCancelledError
    assert len(wheel) == 0
    assert not root.done()


def test_on_end(clock, wheel):
    """
    `on_end` callbacks are called once, in order, when the context ends, or at once if it has already ended.
    """
    context = with_timeout(background(wheel), 1)
    called: list[str] = []
    context.on_end(lambda: called.append("first"))
    forget = context.on_end(lambda: called.append("taken back"))
    context.on_end(lambda: called.append("second"))
    forget()
    forget()
    clock.advance(1)
    assert called == ["first", "second"]
    context.on_end(lambda: called.append("late"))()
    assert called == ["first", "second", "late"]


def test_on_end_refuses_coroutine_functions():
    """
    A coroutine function is refused as a callback of `on_end`, and the error names the alternative.
    """

    async def close() -> None:
        pass

    with pytest.raises(TypeError, match=r"close.*asyncio\.run_coroutine_threadsafe"):
        background().on_end(close)
    with pytest.raises(TypeError, match="pass something that can be called"):
        background().on_end(None)


def test_on_end_that_raises(caplog):
    """
    If an `on_end` callback raises, the error is logged, and the other callbacks are called.
    """
    context = with_cancel(background())
    called: list[int] = []
    context.on_end(lambda: 1 // 0)
    context.on_end(lambda: called.append(1))
    with caplog.at_level(logging.ERROR, logger="tickwheel"):
        assert context.cancel()
    assert called == [1]
    assert "ZeroDivisionError" in caplog.text


def test_a_timer_bound_to_a_context(clock, wheel):
    """
    A timer of a context fires on time.

    After the context has ended, it never fires.
    """
    context = with_timeout(background(wheel), 5)
    fired: list[str] = []
    context.call_later(1, fired.append, "in time")
    late = context.call_later(10, fired.append, "late")
    at = context.call_at(wheel.time() + 2, fired.append, "at")
    bound = context.bind(wheel.call_later(7, fired.append, "bound"))
    clock.advance(20)
    assert fired == ["in time", "at"]
    assert (late.cancelled(), bound.cancelled(), at.cancelled()) == (True, True, False)
    after = context.call_later(1, fired.append, "after")
    assert after.cancelled()
    clock.advance(20)
    assert fired == ["in time", "at"]


def test_a_timer_that_fires_before_it_is_bound(clock, wheel):
    """
    If a context has ended, a timer that is set in it runs no callback, even if another thread fires the timer at once.
    """

    class Overtaking:
        time = wheel.time

        def call_at(self, when: float, callback: Any, /, *args: Any) -> Any:
            timer = wheel.call_at(when, callback, *args)
            clock.advance(0)
            return timer

        def call_later(self, delay: float, callback: Any, /, *args: Any) -> Any:
            return self.call_at(wheel.time() + delay, callback, *args)

    context = background(Overtaking())
    fired: list[str] = []
    context.call_later(0, fired.append, "live")
    context.cancel()
    context.call_later(0, fired.append, "ended")
    context.call_at(wheel.time(), fired.append, "ended")
    assert fired == ["live"]


def test_bound_timers_are_forgotten(clock, wheel):
    """
    A long-lived context releases its timers after they have fired.

    It keeps a timer that restarts itself.
    """
    context = background(wheel)
    for _ in range(100):
        context.call_later(1, int)
    again = context.call_later(1, lambda: again.restart(5))
    clock.advance(2)
    assert context.ending.waiting == 1
    context.cancel()
    assert again.cancelled()
    assert len(wheel) == 0


def test_ended_children_are_forgotten():
    """
    A long-lived context releases its children after they have ended.
    """
    root = background()
    for _ in range(100):
        with with_cancel(root):
            pass
    assert root.ending.waiting == 0


def test_drained_with_its_wheel(wheel):
    """
    If a wheel is closed, its contexts with a deadline are cancelled. `close` returns the timers of contexts.
    """
    context = with_timeout(background(wheel), 5)
    other = background(wheel)
    other.call_later(3, print, "bound")
    bound, _ = wheel.close()
    assert (bound.callback, bound.args) == (print, ("bound",))
    assert "closed" in str(context.err())
    assert other.ending.waiting == 0
    with pytest.raises(ClosedError):
        with_timeout(background(wheel), 5)


@pytest.mark.parametrize(
    ("delay", "error"),
    [(float("nan"), InvalidDelayError), (None, TypeError), ("1", TypeError)],
    ids=["nan", "none", "text"],
)
def test_bad_input(wheel, delay, error):
    """
    For an invalid delay or time, the error names the argument.

    No timer and no context is left behind.
    """
    root = background(wheel)
    for make, name in ((with_timeout, "delay"), (with_deadline, "when")):
        with pytest.raises(error, match=f"{name} is {delay!r}"):
            make(root, delay)
    for bind in (partial(root.call_later, 1), root.on_end):
        with pytest.raises(TypeError, match="callback is 5"):
            bind(5)
    assert (len(wheel), root.ending.waiting) == (0, 0)


def test_no_wheel(wheel):
    """
    A context with a deadline needs a wheel: its own, or the wheel of its root.
    """
    with pytest.raises(TypeError, match="has no wheel"):
        with_timeout(background(), 5)
    with pytest.raises(TypeError, match="has no wheel"):
        background().call_later(5, print)
    context = with_timeout(background(), 5, timers=wheel)
    assert len(wheel) == 1
    with_timeout(context, 1)
    assert len(wheel) == 2


def test_two_clocks(clock, wheel):
    """
    If a child uses another wheel than its parent, its deadline is a time of its own wheel.

    It gets at most the remaining time of the parent.
    """
    other_clock = ManualClock(clock.monotonic_ns() + 10**12)
    other = TimerWheel(clock=other_clock)
    parent = with_timeout(background(wheel), 10)
    sooner, later, never = (with_timeout(parent, delay, timers=other) for delay in (0.5, 20, float("inf")))
    assert [round(child.remaining(), 6) for child in (sooner, later, never)] == [0.5, 10, 10]
    assert sooner.deadline() == pytest.approx(other.time() + 0.5, abs=1e-6)
    below = with_timeout(never, 5, timers=wheel)
    other_clock.advance(1)
    assert [child.done() for child in (sooner, later, never, below)] == [True, False, False, False]
    other_clock.advance(9)
    assert [type(child.err()) for child in (later, never, below)] == [DeadlineExceededError] * 3
    assert not parent.done()
    last = with_timeout(parent, 20, timers=other)
    clock.advance(10)
    assert isinstance(last.err(), DeadlineExceededError)
    assert with_timeout(parent, 1, timers=other).done()
    assert (len(wheel), len(other)) == (0, 0)


def test_waiting_in_a_thread():
    """
    A thread can wait for the end of a context with a timeout, whether the context is cancelled or reaches its deadline.
    """
    context = background()
    assert not context.wait(0)
    threading.Thread(target=context.cancel).start()
    assert context.wait(PATIENCE_S)
    assert context.wait(0)
    with TimerWheel() as real:
        timed = with_timeout(background(real), 0.01)
        assert timed.wait(PATIENCE_S)
        assert type(timed.err()) is DeadlineExceededError
    assert context.ending.waiting == timed.ending.waiting == 0


def test_many_threads_one_end():
    """
    If many threads cancel a context, exactly one of the calls returns True. Afterwards all descendants have ended.
    """
    root = background()
    children = [with_cancel(root) for _ in range(50)]
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(root.cancel())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(answers) == [False] * 7 + [True]
    assert all(child.done() for child in children)


def test_collected(wheel):
    """
    A context that has ended is collected once it is no longer referenced. Its parent and its wheel do not refer to it.
    """
    root = background(wheel)

    def use() -> weakref.ref[Any]:
        with with_timeout(root, 60) as context:
            context.on_end(lambda: context)
        return weakref.ref(context)

    watched = use()
    gc.collect()
    assert watched() is None


LINKS = 100_000


def test_a_chain_of_any_length():
    """
    If a root ends, the last of 100,000 contexts in a chain below it ends, too.
    """
    root = background()
    links = [root]
    for _ in range(LINKS):
        links.append(with_cancel(links[-1]))
    told: list[int] = []
    for at in (1, LINKS // 2, LINKS):
        links[at].on_end(lambda at=at: told.append(at))
    assert root.cancel("enough")
    assert told == [LINKS, LINKS // 2, 1], "first asked, first called: a child asked before"
    assert all(link.done() for link in links)
    assert "enough" in str(links[-1].err())
    del links


def test_a_chain_of_values():
    """
    The last of 100,000 contexts in a chain finds a value of the first one.
    """
    context = background()
    for number in range(LINKS):
        context = with_value(context, number, -number)
    assert (context.value(7), context.value(LINKS - 1), context.value("none")) == (-7, 1 - LINKS, None)
    del context


def test_a_deadline_far_above():
    """
    The deadline of a root applies to the last of 100,000 contexts in a chain below it.
    """
    clock = ManualClock()
    context = with_timeout(background(TimerWheel(clock=clock)), 1)
    for _ in range(LINKS):
        context = with_cancel(context)
    clock.advance(1)
    assert isinstance(context.err(), DeadlineExceededError)


def test_the_middle_of_a_chain():
    """
    If a context in the middle of a chain ends, its parent does not end, and no longer refers to it.
    """
    root = background()
    middle = with_cancel(root)
    leaf = with_cancel(middle)
    middle.cancel()
    assert (root.done(), leaf.done()) == (False, True)
    assert not root.ending.waiting
    assert with_cancel(leaf).done()
