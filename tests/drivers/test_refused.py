"""
If an executor refuses a timer, the callback is not called, and later timers are not affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tickwheel import DeadlineExceededError, ExecutorFullError, ShardedWheel, TimerWheel
from tickwheel.testing import ManualClock
from tickwheel.timers.contexts import background, with_cancel, with_timeout
from tickwheel.timers.contract import DueTimer, Engine
from tickwheel.wheels.heap import HeapWheel


class Doorman:
    """
    An executor that refuses timers until the test allows them.
    """

    def __init__(self) -> None:
        self.is_full = True

    def serve(self, engine: Engine) -> None:
        engine.runner = self.submit

    def submit(self, timer: DueTimer) -> None:
        if self.is_full:
            raise ExecutorFullError(0)
        timer.run()

    def stats(self) -> dict[str, Any]:
        return {}


class Rig:
    """
    A wheel on a manual clock, with a `Doorman` as its executor.
    """

    def __init__(self, make_wheel: Callable[[], Any]) -> None:
        self.make_wheel = make_wheel
        self.clock = ManualClock()
        self.doorman = Doorman()
        self.expired: list[Any] = []
        self.errors: list[BaseException] = []
        self.options: dict[str, Any] = {
            "clock": self.clock,
            "executor": self.doorman,
            "on_expire": lambda *item: self.expired.append(item),
            "on_error": lambda error, _: self.errors.append(error),
        }

    def wheel(self) -> TimerWheel:
        return TimerWheel(wheel=self.make_wheel(), **self.options)

    def refusals(self) -> int:
        """
        Return the number of refused firings, and check that there are no other errors.
        """
        assert all(isinstance(error, ExecutorFullError) for error in self.errors)
        return len(self.errors)


@pytest.fixture(params=["native", "heap"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return Rig(HeapWheel if request.param == "heap" else lambda: None)


def test_a_series_continues(rig: Rig) -> None:
    """
    If an executor refuses firings of a series, the series counts them as missed, and continues in phase.
    """
    wheel, fired = rig.wheel(), []
    series = wheel.call_every(1.0, fired.append, 1, times=2)
    rig.clock.advance(1)
    rig.clock.advance(1)
    assert (fired, series.fired, series.missed, rig.refusals()) == ([], 0, 2, 2)
    rig.doorman.is_full = False
    rig.clock.advance(5)
    assert (fired, series.pending()) == ([1, 1], False)


def test_a_key_is_forgotten(rig: Rig) -> None:
    """
    If the expiry of a key is refused, the key is no longer pending, and can be set again.
    """
    wheel = rig.wheel()
    wheel.set("key", "value", 1)
    rig.clock.advance(1)
    assert (rig.expired, rig.refusals(), wheel.get("key"), "key" in wheel) == ([], 1, None, False)
    assert not wheel.move("key", 1)
    assert not wheel._keyed._entries, "nothing is kept of it"
    rig.doorman.is_full = False
    wheel.set("key", "again", 1)
    rig.clock.advance(1)
    assert rig.expired == [("key", "again")]


def test_a_key_of_shards_is_forgotten(rig: Rig) -> None:
    """
    A sharded wheel forgets a key whose expiry was refused.
    """
    sharded = ShardedWheel(2, make_wheel=rig.make_wheel, **rig.options)
    for key in range(10):
        sharded.set(key, key, 1)
    rig.clock.advance(1)
    assert (rig.expired, rig.refusals(), len(sharded)) == ([], 10, 0)
    assert sharded.stats()["keys"] == 0, "nothing is kept of them"
    sharded.check()


def test_a_deadline_needs_no_executor(rig: Rig) -> None:
    """
    A context ends at its deadline, even if the executor is full.
    """
    context = with_timeout(background(rig.wheel()), 1.0)
    rig.clock.advance(1)
    assert isinstance(context.err(), DeadlineExceededError)
    assert rig.refusals() == 1


def test_a_bound_timer_leaves_its_context(rig: Rig) -> None:
    """
    If a timer of a context is refused, the context releases it.
    """
    context = with_cancel(background(rig.wheel()))
    before = context.ending.waiting
    timer = context.call_later(1.0, rig.expired.append, 1)
    rig.clock.advance(1)
    assert context.ending.waiting == before, "the context does not know it any more"
    context.cancel()
    assert (timer.cancelled(), rig.expired, rig.refusals()) == (False, [], 1)


def test_an_error_in_a_hash_is_reported_too(rig: Rig) -> None:
    """
    If the expiry of a key is refused and the key's hash raises, both errors are reported.
    """

    class Key:
        raises = False

        def __hash__(self) -> int:
            if self.raises:
                message = "the hash"
                raise ValueError(message)
            return 1

    key, wheel = Key(), rig.wheel()
    wheel.set(key, None, 1)
    wheel.set("other", None, 1)
    key.raises = True
    rig.clock.advance(1)
    assert sorted(type(error).__name__ for error in rig.errors) == ["ExecutorFullError"] * 2 + ["ValueError"]
    assert "other" not in wheel


def test_series_by_the_wall_clock(rig):
    """
    A series by the wall clock counts a refused firing as missed, and continues.
    """
    wheel = rig.wheel()
    now = rig.clock.wall_ns() // 10**9
    series = wheel.call_cron("*/10 * * * *", rig.expired.append, "cron")
    once = wheel.call_at_wall(now + 1_500, rig.expired.append, "once")
    rig.clock.advance(600 - now % 600 - 1)
    assert rig.refusals() > 0
    assert (series.missed, once.missed) == (0, 0)
    rig.clock.advance(1 + 1_800)
    assert (series.missed, once.missed, rig.expired) == (4, 1, [])
    assert (series.pending(), once.pending()) == (True, False)
    rig.doorman.is_full = False
    rig.clock.advance(600)
    assert rig.expired == ["cron"]
    assert series.cancel()
