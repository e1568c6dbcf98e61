"""
The simulation in its short form: days without violations, one day run twice, and faulty engines that it must detect.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from mutants import AT_ONCE, MUTANTS, ON_A_FILE, RARE, SLOWLY, SOON, TOGETHER, WHOLE_DAYS
from simulation import Plan, check_history, run_seed, simulate

HOURS = 6.0
OFTEN, RARELY, LONG = range(0, 48, 2), range(0, 192, 16), range(0, 128, 8)
"""Distances between the seeds that are tried for a frequent fault, for a rare fault, and for a fault of a whole day."""
HOURS_MAX = 5
"""Maximum number of short days that are tried before the longer days."""
CROWDED = 10
"""The seed of a day on which many callers request the same jobs."""
PULLED = (8, 9)
"""The seeds of two days on which workers pull: one day on a cluster, and one on a file."""
FULL_LANES = (18, 19)
"""The seeds of two days with full lanes: one day on a cluster, and one on a file."""
RATES, EQUIPMENT = 20, 30
"""
The seed of a day with other clock rates and hanging statements, and the seed of a day with missing equipment.
"""
LATE = 802665258
"""The seed of a day on which a write that withdraws an attempt reaches the store after the next claim of its job."""


@pytest.mark.parametrize("seed", [*range(6), CROWDED, *PULLED, *FULL_LANES, RATES, EQUIPMENT, LATE])
def test_a_day_without_violations(seed):
    """
    The checker finds no violation in a day with kills, pauses, cuts, bad lines and clock steps.
    """
    verdict = run_seed(seed, HOURS)
    assert verdict.violations == ()
    assert verdict.counts["fired"] > 50
    assert verdict.counts["fault"] > 5
    assert (verdict.counts["extended"] > 50) is (seed in PULLED)


@pytest.mark.parametrize("plan", dict.fromkeys(AT_ONCE.values()), ids=lambda plan: f"{plan.seed}-{plan.breaks}")
def test_a_quarter_of_an_hour_without_violations(plan):
    """
    The plans that are used to find faulty engines have no violation with the correct engine.
    """
    assert check_history(simulate(plan), plan.shards) == []


@pytest.mark.parametrize("seed", [0, 1, FULL_LANES[1], RATES, EQUIPMENT])
def test_minutes_without_violations(seed):
    """
    The checker finds no violation in twenty-four minutes with faults.
    """
    verdict = run_seed(seed, 0.4)
    assert verdict.violations == ()
    assert verdict.counts["fired"] > 50
    assert verdict.counts["fault"] > 0


@pytest.mark.parametrize("seed", PULLED)
def test_an_hour_without_violations(seed):
    """
    The checker finds no violation in an hour in which workers pull.
    """
    verdict = run_seed(seed, 1.0)
    assert verdict.violations == ()
    assert verdict.counts["fired"] > 50
    assert verdict.counts["extended"] > 50


@pytest.mark.parametrize("seed", [2, 3])
def test_one_seed_is_one_history(seed):
    """
    One seed gives the same history byte for byte, even in another process with a different hash seed.
    """
    program = f"from simulation import run_seed; print(run_seed({seed}, 3.0).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(Path(__file__).parent)}
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=100
    )
    mine = [simulate(Plan(seed, 3.0, 50, 5)).to_bytes() for _ in range(2)]
    assert mine[0] == mine[1]
    assert other.stdout.strip() == run_seed(seed, 3.0).digest


def test_other_seeds_are_other_histories():
    """
    Two seeds on the same kind of store give different histories.
    """
    assert simulate(Plan(2, 1.0, 20, 2)).digest() != simulate(Plan(4, 1.0, 20, 2)).digest()


def days_of(name):
    """
    Yield the days on which the fault *name* may show, the shortest first.
    """
    if name in AT_ONCE:
        first = AT_ONCE[name]
        yield from (replace(first, seed=first.seed + later) for later in OFTEN[:HOURS_MAX])
    soon = Plan(SLOWLY[name], 2.0, 60, 12) if name in SLOWLY else Plan(SOON.get(name, 0), 1.0, 40, 8)
    if name not in WHOLE_DAYS or name in SOON:
        yield from (replace(soon, seed=soon.seed + later) for later in (RARELY if name in RARE else OFTEN)[:HOURS_MAX])
    first = WHOLE_DAYS.get(name) or Plan(RARE.get(name, int(name in ON_A_FILE)), HOURS, 150, 20)
    for seed in RARELY if name in RARE else LONG if name in WHOLE_DAYS else OFTEN:
        yield replace(first, seed=first.seed + seed)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_faulty_engine_is_found(name):
    """
    If an engine or store has the fault *name*, the checker finds a violation of the expected kind within a few seeds.
    """
    mutant, kinds = MUTANTS[name]
    for plan in days_of(name):
        with mutant():
            history = simulate(plan)
        if kinds & {violation.kind for violation in check_history(history, plan.shards)}:
            return
    pytest.fail(f"nobody saw that the engine {name}")


@pytest.mark.parametrize(("first", "names"), TOGETHER, ids=["+".join(names) for _, names in TOGETHER])
def test_faulty_engines_are_found_together(first, names):
    """
    If several faults are simulated together, all of them are found within a few seeds.

    The faults are chosen so that each breaks a different guarantee.
    """
    expected = {name: MUTANTS[name][1] for name in names}
    assert sum(map(len, expected.values())) == len(set().union(*expected.values()))
    found = set()
    for later in OFTEN[:HOURS_MAX]:
        plan = replace(first, seed=first.seed + later)
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(MUTANTS[name][0]())
            history = simulate(plan)
        kinds = {violation.kind for violation in check_history(history, plan.shards)}
        found |= {name for name in names if expected[name] & kinds}
        if found == set(names):
            return
    pytest.fail(f"nobody saw that the engine {sorted(set(names) - found)}")
