"""
The timer that watches for attempts that take too long.
"""

from __future__ import annotations

from types import SimpleNamespace

from tickwheel.engine._timeouts import Timeouts
from tickwheel.host.runtime import Runtime


def test_a_timer_that_fires_while_it_is_set_is_set_again():
    """
    If a timeout is so short that its timer fires while the timer is being set, later timeouts still work.
    """
    set_for = []

    def call_at(when, look):
        set_for.append(when)
        look()

    clock, timers = SimpleNamespace(monotonic=lambda: 10.0), SimpleNamespace(call_at=call_at)
    resources = SimpleNamespace(clock=clock, timers=timers, elapsed=None, runtime=Runtime())
    runner = SimpleNamespace(queue=SimpleNamespace(running=list))
    timeouts = Timeouts(resources, runner, end=None)
    for timeout_s in (0.01, 5.0):
        timeouts.begin(SimpleNamespace(call=SimpleNamespace(timeout_s=timeout_s)))
    assert set_for == [10.01, 15.0]
