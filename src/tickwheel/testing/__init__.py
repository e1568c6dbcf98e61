"""
What users and we test with: a manual clock, contract suites, state machines, faults.
"""

from __future__ import annotations

from tickwheel.testing.manual_clock import ManualClock
from tickwheel.testing.promise import Event, PromiseBrokenError, PromiseLog, check_promise

__all__ = ["Event", "ManualClock", "PromiseBrokenError", "PromiseLog", "check_promise"]
