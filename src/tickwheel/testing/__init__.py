"""
The kit for tests: a manual clock, a scheduler that fires inline, contract suites, state machines, faults.

The suites import no test library. `pytest.register_assert_rewrite("tickwheel.testing.store_suite")`, or the name of
another suite, makes pytest explain its assertions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel._later import later

if TYPE_CHECKING:
    from tickwheel.testing.inline import AsyncInlineScheduler, InlineScheduler
    from tickwheel.testing.manual_clock import ManualClock
    from tickwheel.testing.promise import Event, PromiseBrokenError, PromiseLog, check_promise
else:  # pytest imports this package for its plugin, in every run of every project with tickwheel
    __getattr__, __dir__ = later(
        __name__,
        {
            "tickwheel.testing.inline": ("AsyncInlineScheduler", "InlineScheduler"),
            "tickwheel.testing.manual_clock": ("ManualClock",),
            "tickwheel.testing.promise": ("Event", "PromiseBrokenError", "PromiseLog", "check_promise"),
        },
    )

__all__ = [
    "AsyncInlineScheduler",
    "Event",
    "InlineScheduler",
    "ManualClock",
    "PromiseBrokenError",
    "PromiseLog",
    "check_promise",
]
