"""
A deterministic simulation of the durable scheduler, and the checker of what happened in it.
"""

from __future__ import annotations

from tickwheel.testing.simulation._simulation import Plan, simulate
from tickwheel.testing.simulation.history import History

__all__ = ["History", "Plan", "simulate"]
