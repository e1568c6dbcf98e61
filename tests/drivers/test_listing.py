"""
The list of a wheel's pending timers, in order, with the user's own callbacks, arguments and handles.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tickwheel import ShardedWheel, TimerWheel, background, with_timeout
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel


@pytest.fixture(params=["native", "heap"])
def wheel(request: pytest.FixtureRequest) -> TimerWheel:
    design = HeapWheel() if request.param == "heap" else None
    return TimerWheel(wheel=design, clock=ManualClock(), on_expire=print)


def test_everything_is_listed(wheel):
    """
    The list contains plain, keyed and periodic timers, deadlines of contexts, and timers of contexts.
    """
    plain = wheel.call_later(1, print, "plain")
    wheel.set("key", "value", 2)
    series = wheel.call_every(3, print, "series")
    context = with_timeout(background(wheel), 5)
    bound = context.call_later(4, print, "bound")
    listed = wheel.pending()
    assert [each.callback for each in listed[:4]] == [print, None, print, print]
    assert [each.args for each in listed[:4]] == [("plain",), ("key", "value"), ("series",), ("bound",)]
    assert [each.timer for each in listed[:4]] == [plain, None, series, bound]
    assert "of a context" in repr(listed[4].callback)
    assert (bound.callback, bound.args) == (print, ("bound",))
    assert [each.args for each in wheel.pending(2)] == [("plain",), ("key", "value")]
    listed[0].timer.cancel()
    assert wheel.pending(1)[0].args == ("key", "value")


def test_keys(wheel):
    """
    `keys` lists keys by deadline, up to the requested number.
    """
    for number in range(300):
        wheel.call_later(number / 1000, print)
    for number in range(200):
        wheel.set(f"key {number}", number, 200 - number)
    assert wheel.keys(3) == ["key 199", "key 198", "key 197"]
    assert wheel.items(1) == [("key 199", 199)]
    assert len(wheel.keys()) == 100
    assert len(wheel.keys(None)) == 200
    wheel.move("key 0", 0)
    assert wheel.keys(1) == ["key 0"]
    wheel.cancel("key 0")
    assert wheel.keys(1) == ["key 199"]
    assert wheel.keys(0) == []
    with pytest.raises(ValueError, match="-1"):
        wheel.keys(-1)


def test_shards():
    """
    The keys of all shards are listed together, ordered by deadline.
    """
    shards = ShardedWheel(3, clock=ManualClock(), on_expire=print)
    for number in range(50):
        shards.set(number, str(number), 50 - number)
    assert shards.keys(5) == [49, 48, 47, 46, 45]
    assert shards.items(1) == [(49, "49")]
    assert [each.args for each in shards.pending(2)] == [(49, "49"), (48, "48")]
    assert len(shards.keys(None)) == 50


def test_an_instant_before_all_that_the_zone_can_show(wheel):
    """
    A datetime that is too early for its zone is due at once, like any past time, and can be listed.
    """
    fired = []
    timer = wheel.call_at_wall(datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), fired.append, 1)
    assert timer.next_at().year == 1
    assert "pending" in repr(timer)
    assert [each.callback for each in wheel.pending()] == [fired.append]
    wheel.clock.advance(0.001)
    assert fired == [1]
