"""
A deterministic simulation of the durable scheduler, and the checker of what happened in it.

    python -m simulation --seeds 200

Several nodes run the engine's real code, threads and all, on simulated time, over a real store at the far end of a bad
line, and are killed, paused, cut off and have their clocks set. One seed is one day, the same to the byte each time.
"""

from __future__ import annotations

from simulation._run import Verdict, run_seed, run_seeds
from simulation._simulation import Plan, simulate
from simulation._store import How
from simulation.history import History
from simulation.history_checker import Violation, check_history

__all__ = ["History", "How", "Plan", "Verdict", "Violation", "check_history", "run_seed", "run_seeds", "simulate"]
