"""
A timer without a key never counts as a key. The keyed methods refuse it, and name the right method.
"""

from __future__ import annotations

from typing import Any

import pytest

from tickwheel import ManualDriver, ShardedWheel, TimerWheel, background
from tickwheel.testing import ManualClock
from tickwheel.wheels import HeapWheel, RoundsWheel

WHEELS: dict[str, Any] = {
    "native": lambda clock: TimerWheel(clock=clock, driver=ManualDriver(), on_expire=print),
    "heap": lambda clock: TimerWheel(clock=clock, driver=ManualDriver(), on_expire=print, wheel=HeapWheel()),
    "rounds": lambda clock: TimerWheel(
        clock=clock, driver=ManualDriver(), on_expire=print, wheel=RoundsWheel(tick=0.1)
    ),
    "without on_expire": lambda clock: TimerWheel(clock=clock, driver=ManualDriver()),
    "sharded": lambda clock: ShardedWheel(2, clock=clock, on_expire=print),
}

VERBS: dict[str, Any] = {
    "cancel": lambda wheel, key: wheel.cancel(key),
    "move": lambda wheel, key: wheel.move(key, 5),
    "get": lambda wheel, key: wheel.get(key),
    "find": lambda wheel, key: wheel.find(key),
    "in": lambda wheel, key: key in wheel,
    "set": lambda wheel, key: wheel.set(key, 1, 5),
}

HANDLES: dict[str, Any] = {
    "call_later": lambda wheel: wheel.call_later(1, print),
    "call_at": lambda wheel: wheel.call_at(wheel.time() + 1, print),
    "call_every": lambda wheel: wheel.call_every(1, print),
    "call_cron": lambda wheel: wheel.call_cron("* * * * *", print),
    "a context's": lambda wheel: background(wheel).call_later(1, print),
}


@pytest.mark.parametrize("make", WHEELS.values(), ids=WHEELS)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("make_handle", HANDLES.values(), ids=HANDLES)
@pytest.mark.parametrize("design", ["native", "heap"])
def test_keyed_methods_refuse_handles(make, verb, make_handle, design):
    """
    Each keyed method of each wheel refuses handles of any kind, pending or ended, even of another wheel.
    """
    clock = ManualClock()
    wheel, other = make(clock), WHEELS[design](clock)
    for handle in (make_handle(other), *([make_handle(wheel)] if isinstance(wheel, TimerWheel) else [])):
        for _ in range(2):
            with pytest.raises(TypeError, match=r"a timer without a key: call its own cancel\(\)|on_expire"):
                verb(wheel, handle)
            handle.cancel()


@pytest.mark.parametrize("make", [WHEELS[name] for name in ("native", "heap", "rounds", "without on_expire")])
def test_keyed_methods_refuse_ids(make):
    """
    `cancel` and `move` refuse the id of a pending bulk timer. Once the timer has ended, the id counts as a key.
    """
    wheel = make(ManualClock())
    ids = wheel.call_later_many([1.0, 2.0], print)
    for verb in (VERBS["cancel"], VERBS["move"]):
        with pytest.raises(TypeError, match="the id of a timer without a key: pass it to cancel_many"):
            verb(wheel, ids[0])
    assert wheel.cancel_many([ids[0]]) == 1
    assert wheel.cancel(ids[0]) is False
    assert wheel.move(ids[0], 5) is False


@pytest.mark.parametrize("make", [WHEELS[name] for name in ("native", "heap", "rounds", "sharded")])
def test_numbers_stay_keys(make):
    """
    A wheel accepts any integer as a key, even the id of a timer without a key.
    """
    wheel = make(ManualClock())
    keys = [0, 1, -1, 2**70, True]
    if isinstance(wheel, TimerWheel):
        keys += wheel.call_later_many([1.0] * 3, print)
    for key in keys:
        wheel.set(key, "value", 5)
        assert wheel.move(key, 6)
        assert wheel.get(key) == "value"
        assert wheel.cancel(key)
    assert [wheel.cancel(key) for key in (0, 1, 2, -1, 2**70)] == [False] * 5
