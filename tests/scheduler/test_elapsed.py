"""
`RelativeJobs` remembers which jobs with a delay had their due times computed before a clock step.

After the clock step, these due times have to be corrected.
"""

from __future__ import annotations

import random

from tickwheel.engine.elapsed import RelativeJobs
from tickwheel.host.runtime import Runtime
from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.model import Job
from tickwheel.testing import ManualClock


def test_generations_and_clock_steps():
    """
    `RelativeJobs` returns the clock step at which a job was last noted, or None for an unknown job.
    """
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - a failure must be repeatable
    rng = random.Random(seed)
    clock = ManualClock(wall=1_700_000_000.0)
    runtime = Runtime(clock=clock)
    told = StoreClock(runtime)
    elapsed, steps = RelativeJobs(told, runtime), {}
    generation = 0
    for _ in range(400):
        if rng.random() < 0.02:
            clock.step_wall(rng.choice((-3600.0, 3600.0)))
            told.now()
        generation += rng.choice((0, 1, 5))
        jobs = [
            Job(f"k{n}", generation + n + 1, told.now_ms() + rng.randrange(10**6))
            for n in range(rng.choice((1, 1, 20)))
        ]
        generation += len(jobs)
        if steps and rng.random() < 0.2:  # the job is written again after a step, or retried
            jobs.append(Job("again", rng.choice(list(steps)), told.now_ms()))
        elapsed.note(jobs, told.clock_step)
        steps.update((job.generation, told.clock_step) for job in jobs)
    for number in range(generation + 5):
        assert elapsed.base(Job("k", number, 0)) == steps.get(number), number


def test_passed_generations_are_forgotten(monkeypatch):
    """
    A job with a delay is remembered until its due time has passed, and is forgotten soon after that.
    """
    monkeypatch.setattr("tickwheel.engine.elapsed._RUNS_MAX", 100)
    clock = ManualClock(wall=1_700_000_000.0)
    runtime = Runtime(clock=clock)
    told = StoreClock(runtime)
    elapsed = RelativeJobs(told, runtime)
    for number in range(1_000):
        elapsed.note([Job("k", 2 * number, told.now_ms() + 1_000)], 0)
        clock.advance(0.1)
    known = [number for number in range(1_000) if elapsed.base(Job("k", 2 * number, 0)) == 0]
    assert set(known) >= set(range(990, 1_000))
    assert len(known) <= 200


def test_a_job_noted_during_a_scan():
    """
    If a job is set while another thread scans older jobs, it is treated as set before the next clock step.
    """
    clock = ManualClock(wall=1_700_000_000.0)
    runtime = Runtime(clock=clock)
    told = StoreClock(runtime)
    elapsed = RelativeJobs(told, runtime)

    def looked_through():
        elapsed.note([Job("newer", 9, told.now_ms())], told.clock_step)
        yield Job("older", 3, told.now_ms())

    elapsed.met(looked_through())
    clock.step_wall(-3600.0)
    told.now()
    assert elapsed.is_old(Job("newer", 9, told.now_ms()))
