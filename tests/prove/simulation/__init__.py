"""
A deterministic simulation of the durable scheduler, and a checker of its histories.

    python -m simulation --seeds 200

Several nodes run the engine's real code with its threads, on simulated time, over a real store behind a bad line. They
are killed, paused and cut off, and their clocks are set. One seed is one day, the same to the byte each time.
"""

from __future__ import annotations

from simulation._run import Verdict, run_seed, run_seeds
from simulation._simulation import Plan, simulate
from simulation._store import How
from simulation.history import History
from simulation.history_checker import Violation, check_history

__all__ = ["History", "How", "Plan", "Verdict", "Violation", "check_history", "run_seed", "run_seeds", "simulate"]
