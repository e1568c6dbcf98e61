"""
If a callback raises at the end of a context, all other callbacks run, and all other contexts end.
"""

from __future__ import annotations

import logging
import sys

import pytest

from tickwheel import TimerWheel, background, with_cancel, with_timeout
from tickwheel.testing import ManualClock
from tickwheel.wheels.heap import HeapWheel


@pytest.fixture(params=[lambda: None, HeapWheel])
def wheel(request: pytest.FixtureRequest) -> TimerWheel:
    return TimerWheel(wheel=request.param(), clock=ManualClock())


def test_on_end_that_exits(wheel, caplog):
    """
    If `on_end` callbacks raise exceptions such as SystemExit, the first is raised once all contexts have ended.
    """
    context = with_cancel(background(wheel))
    called: list[str] = []
    context.on_end(lambda: sys.exit(3))
    context.on_end(lambda: 1 // 0)
    context.on_end(lambda: sys.exit(4))
    child = with_cancel(context)
    child.on_end(lambda: called.append("child"))
    timer = context.call_later(5, called.append, "timer")
    with caplog.at_level(logging.ERROR, logger="tickwheel"), pytest.raises(SystemExit) as raised:
        context.cancel()
    assert raised.value.code == 3
    assert "ZeroDivisionError" in caplog.text
    assert (called, child.done(), timer.cancelled()) == (["child"], True, True)
    assert not context.cancel()


@pytest.mark.parametrize("end", [TimerWheel.drain, TimerWheel.close])
def test_a_wheel_that_ends_contexts(wheel, end):
    """
    If an `on_end` callback raises during a drain or close, the other contexts still end, and the wheel can be closed.
    """
    first, second = with_timeout(background(wheel), 5), with_timeout(background(wheel), 6)
    first.on_end(lambda: sys.exit(3))
    second.on_end(lambda: sys.exit(4))
    with pytest.raises(SystemExit) as raised:
        end(wheel)
    assert raised.value.code == 3
    assert (first.done(), second.done(), len(wheel)) == (True, True, 0)
    wheel.close()
    assert wheel.clock._attached == [], "the driver has stopped"
