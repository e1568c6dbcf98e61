"""
What users and we test with: a manual clock, contract suites, state machines, faults.
"""

from __future__ import annotations

from tickwheel.testing.manual_clock import ManualClock

__all__ = ["ManualClock"]
