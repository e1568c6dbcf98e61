"""
Forecasts: the next jobs, and the number of jobs that become due in each step of time.
"""

from __future__ import annotations

import random

import pytest

from tickwheel.scheduler import InvalidJobError, Scheduler, SetRequest

SINCE = 4_133_980_800


@pytest.fixture
def filled(url):
    """
    Return a scheduler with jobs at random instants around the year 2101, and a dict of these instants by key.
    """
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  shown when a test fails
    draw = random.Random(seed)
    instants = {
        f"job {n}": SINCE + draw.choice((-1, 0, 0.999, 1, 59.999, 60, draw.uniform(-9, 99))) for n in range(300)
    }
    scheduler = Scheduler(url)
    scheduler.set_many([SetRequest(key, at=at, target="log") for key, at in instants.items()])
    yield scheduler, {job.key: job.due_at for job in scheduler.list(limit=1000).jobs}
    scheduler.stop()


@pytest.mark.parametrize(("step", "steps"), [(1, 60), (60, 1), (0.25, 200), (7, 9)])
def test_forecast_counts_each_step(filled, step, steps):
    """
    Each step of a forecast counts the jobs due from its beginning until just before its end.

    Jobs that are due outside all steps are not counted.
    """
    scheduler, due_at = filled
    expected = [0] * steps
    for at in due_at.values():
        index = (at - SINCE * 1000) // int(step * 1000)
        if 0 <= index < steps:
            expected[index] += 1
    assert sum(expected)
    assert scheduler.forecast(SINCE, step, steps) == expected


def test_upcoming_is_in_the_order_of_instants(filled):
    """
    The next jobs are listed in order of due time. Jobs with the same due time are in order of generation.

    A list for a range has all jobs due in the range, but not a job that is due exactly at its end.
    """
    scheduler, due_at = filled
    every = scheduler.upcoming(limit=1000)
    assert {job.key: job.due_at for job in every} == due_at
    assert every == sorted(every, key=lambda job: (job.due_at, job.generation))
    part = scheduler.upcoming(SINCE, SINCE + 60, limit=1000)
    assert part == [job for job in every if SINCE * 1000 <= job.due_at < SINCE * 1000 + 60_000]
    assert scheduler.upcoming(limit=7) == every[:7]


@pytest.mark.parametrize(
    ("step", "steps", "part"), [(0, 1, "step is 0"), (1, 0, "steps is 0"), (1, 1001, "steps is 1001")]
)
def test_bad_steps(url, step, steps, part):
    """
    A forecast without steps, with too many steps, or with steps without a length is refused.

    The error names the argument.
    """
    with Scheduler(url) as scheduler, pytest.raises(InvalidJobError, match=part):
        scheduler.forecast(SINCE, step, steps)
