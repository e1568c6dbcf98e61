"""
Real runs keep the guarantees of docs/promise.md, and the checker detects each violation.
"""

from __future__ import annotations

import random
import threading
from typing import Any
from unittest.mock import Mock

import pytest

from tickwheel import TimerWheel
from tickwheel.testing import Event, ManualClock, PromiseBrokenError, PromiseLog, check_promise
from tickwheel.wheels.heap import HeapWheel

PATIENCE_S = 20.0


@pytest.mark.parametrize("make", [lambda: None, HeapWheel], ids=["native", "heap"])
def test_a_run_on_a_manual_clock(make):
    """
    If thousands of operations set, move and cancel timers, also in callbacks, the guarantees of docs/promise.md hold.
    """
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    clock = ManualClock()
    log = PromiseLog(TimerWheel(clock=clock, wheel=make()))
    timers: list[Any] = []

    def act() -> None:
        for _ in range(rng.randrange(3)):
            chance = rng.random()
            if chance < 0.5 and len(timers) < 3_000:
                timers.append(log.call_later(rng.randrange(-1, 5), act))
            elif timers and chance < 0.8:
                rng.choice(timers[-20:]).restart(rng.randrange(5))
            elif timers:
                rng.choice(timers[-20:]).cancel()

    for _ in range(2_000):
        act()
        clock.advance(rng.randrange(3))
    clock.advance(10)
    log.end()
    counts = check_promise(log.events, lateness_max_s=0)
    assert counts["fire"] > 200, seed
    assert counts["set"] + counts["move"] >= counts["fire"] + counts["cancel"]


@pytest.mark.realtime
def test_a_run_on_a_thread():
    """
    The guarantees of docs/promise.md hold for a wheel on a thread while three other threads use it.
    """
    with TimerWheel() as wheel:
        log = PromiseLog(wheel)

        def work(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(300):
                timer = log.call_later(rng.random() / 200, int)
                if rng.random() < 0.3:
                    timer.cancel()

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        signal = threading.Event()
        wheel.call_later(0.02, signal.set)
        assert signal.wait(PATIENCE_S)
        log.end()
    counts = check_promise(log.events)
    assert counts["set"] == counts["fire"] + counts["cancel"] == 900


def test_a_handle_that_is_logged():
    """
    The wrapper that logs the calls of a timer behaves like the timer.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    log = PromiseLog(wheel)
    timer = log.call_at(wheel.time() + 1, int)
    assert (timer.pending(), timer.when()) == (True, pytest.approx(wheel.time() + 1, abs=1e-6))
    assert timer.reschedule(wheel.time() + 2)
    assert timer.cancel()
    assert not timer.cancel()
    assert [(event.kind, event.answer) for event in log.events] == [
        ("set", True),
        ("move", True),
        ("cancel", True),
        ("cancel", False),
    ]
    assert check_promise(log.events) == {"set": 1, "move": 1, "cancel": 1}


def test_a_move_to_now_is_logged_before_it_fires():
    """
    If a timer is moved to now, it may fire while the move is still running. The checker accepts this.
    """
    clock = ManualClock()
    wheel = TimerWheel(clock=clock)
    log = PromiseLog(wheel)
    timer = log.call_later(60, int)
    move = timer.timer.restart

    def and_fire(delay: float) -> bool:
        answer = move(delay)
        clock.advance(0)
        return answer

    timer.timer = Mock(wraps=timer.timer, restart=and_fire)
    assert timer.restart(0)
    log.end()
    assert check_promise(log.events) == {"set": 1, "move": 1, "fire": 1, "end": 1}


A = Event("set", "a", 0, deadline=5)
BROKEN = {
    "early": ([A, Event("fire", "a", 4)], {}, "'a' fired 1 s early, at 4"),
    "early after a move": ([A, Event("move", "a", 1, deadline=9), Event("fire", "a", 6)], {}, "fired 3 s early"),
    "moved in the same instant": (
        [A, Event("move", "a", 5, 5, deadline=9), Event("fire", "a", 5)],
        {},
        "'a' fired 4 s early, at 5",
    ),
    "twice": ([A, Event("fire", "a", 5), Event("fire", "a", 6)], {}, "'a' fired twice, at 6"),
    "after a cancel": ([A, Event("cancel", "a", 1), Event("fire", "a", 5)], {}, "after a cancel that said True"),
    "cancelled twice": ([A, Event("cancel", "a", 1), Event("cancel", "a", 2)], {}, "and was not pending"),
    "cancelled and fired": ([A, Event("fire", "a", 5), Event("cancel", "a", 6)], {}, "and was not pending"),
    "moved after a cancel": (
        [A, Event("cancel", "a", 1), Event("move", "a", 2, deadline=9)],
        {},
        "was moved after a cancel",
    ),
    "too late": ([A, Event("fire", "a", 8)], {"lateness_max_s": 2}, "fired 3 s late, which is more than 2 s"),
    "lost": ([A, Event("end", None, 5)], {}, "due at 5 and has not fired by 5"),
    "out of order": (
        [A, Event("set", "b", 0, deadline=4), Event("fire", "a", 6), Event("fire", "b", 6)],
        {},
        "fired before timer 'b'",
    ),
    "out of turn": (
        [A, Event("set", "b", 1, deadline=5), Event("fire", "b", 6), Event("fire", "a", 6)],
        {},
        "fired before timer 'a'",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_is_reported(case):
    """
    If a wheel breaks a guarantee of docs/promise.md, the checker reports this in one line, with the timer and the time.
    """
    events, options, text = BROKEN[case]
    with pytest.raises(PromiseBrokenError) as found:
        check_promise(events, **options)
    (breach,) = found.value.breaches
    assert text in breach
    assert breach in str(found.value)


KEPT = {
    "a new life": ([A, Event("fire", "a", 5), Event("move", "a", 5, deadline=7), Event("fire", "a", 7)], {}),
    "what said False": ([A, Event("fire", "a", 5), Event("cancel", "a", 6, answer=False)], {}),
    "late, and allowed": ([A, Event("fire", "a", 8)], {"lateness_max_s": 3}),
    "late, for it was set late": ([Event("set", "a", 8, deadline=5), Event("fire", "a", 8)], {"lateness_max_s": 0}),
    "not due yet": ([A, Event("end", None, 4)], {}),
    "set to the past in the turn": (
        [A, Event("set", "b", 6, deadline=1), Event("fire", "a", 6), Event("fire", "b", 6)],
        {},
    ),
    "fired while it was moved": (
        [
            A,
            Event("move", "a", 5, 6, deadline=9),
            Event("fire", "a", 5.5),
            Event("fire", "a", 9),
            Event("end", None, 9),
        ],
        {},
    ),
    "fired while it was moved to now": (
        [A, Event("move", "a", 5, 6, deadline=5.2), Event("fire", "a", 5.5), Event("end", None, 9)],
        {},
    ),
    "without order": (
        [A, Event("set", "b", 0, deadline=4), Event("fire", "a", 6), Event("fire", "b", 6)],
        {"is_ordered": False},
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_unusual_events_are_not_reported(case):
    """
    The checker does not report unusual but correct events.
    """
    events, options = KEPT[case]
    counts = check_promise(events, **options)
    assert sum(counts.values()) == sum(event.answer for event in events)
