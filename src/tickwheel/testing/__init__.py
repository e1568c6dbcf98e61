"""
Tools for tests: a manual clock, inline schedulers, contract suites, random programs, and fault injection.

The suites import no test library. To make pytest explain the assertions of a suite, call
`pytest.register_assert_rewrite` with the name of its module, such as "tickwheel.testing.store_suite".
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
