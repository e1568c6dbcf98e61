"""
A deterministic simulation of the durable scheduler, and a checker of its histories.

    python -m simulation --seeds 200

Several nodes run the engine's real code with its threads, on simulated time. They use a real store over a bad network
line. The nodes are killed, paused and cut off, and their clocks are set. Each seed gives one day, whose history is
always the same to the byte.
"""

from __future__ import annotations

from simulation._run import Verdict, run_seed, run_seeds
from simulation._simulation import Plan, simulate
from simulation._store import How
from simulation.history import History
from simulation.history_checker import Violation, check_history

__all__ = ["History", "How", "Plan", "Verdict", "Violation", "check_history", "run_seed", "run_seeds", "simulate"]
