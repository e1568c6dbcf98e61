"""
Runs many seeds, one after another or in parallel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from simulation._simulation import Plan, simulate
from simulation.history import Event
from simulation.history_checker import check_history

__all__ = ["Verdict", "run_seed", "run_seeds"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    The result of one seed.

    Attributes:
        seed: The seed.
        digest: Digest of its history.
        counts: Number of events by kind.
        violations: The violations in words; empty if there are none.
    """

    seed: int
    digest: str
    counts: Counter[str]
    violations: tuple[str, ...]


def run_seed(seed: int, hours: float = 24.0, nodes: int = 3) -> Verdict:
    """
    Simulate one day that lasts *hours*, and check its history.

    An even seed uses a cluster of *nodes*. An odd seed uses a file.
    """
    share = hours / 24
    plan = Plan(seed, hours, max(1, int(400 * share)), int(40 * share), nodes)
    history = simulate(plan)
    counts = Counter(_kind(event) for event in history.events)
    found = check_history(history, plan.shards)
    return Verdict(seed, history.digest(), counts, tuple(map(str, found)))


def run_seeds(seeds: Iterable[int], hours: float = 24.0, nodes: int = 3, *, processes: int = 1) -> Iterator[Verdict]:
    """
    Yield the verdict on each of *seeds*, in the order of the seeds.

    Up to *processes* simulations run at a time.
    """
    if processes == 1:
        yield from map(partial(run_seed, hours=hours, nodes=nodes), seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(run_seed, hours=hours, nodes=nodes), seeds)


def _kind(event: Event) -> str:
    return type(event).__name__.lower()
