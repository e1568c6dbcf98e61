"""
The proof of the clock: the time of day is moved forward and back, by an hour and by a day, while jobs are due.

    python tests/prove/clock_steps.py --jobs 400 [--store URL]

All jobs have a delay, which counts elapsed time. If the store is a file, its owner must detect each clock step. If the
store is a database, the database's own clock is used. No job may be lost, run twice or run early. A job may be late
only by the time that it takes to detect the step.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tickwheel.clock import MonotonicClock
from tickwheel.scheduler import Scheduler, StoreError

__all__ = ["Result", "prove"]

STEPS_S = (3600.0, -3600.0, 86_400.0, -86_400.0)
PATIENCE_S = 20.0
PROMPT_MS = 1_500.0
"""
Maximum lateness of a job in ms, for noticing a clock step on a busy machine.
"""


class SettableClock(MonotonicClock):
    step_ns = 0

    def wall_ns(self) -> int:
        return time.time_ns() + self.step_ns


@dataclass(slots=True)
class Result:
    jobs: int
    lost: int
    double: int
    early: int
    latest_ms: float


def prove(url: str, jobs: int, seed: int) -> Result:
    dice = random.Random(seed)
    clock = SettableClock()
    scheduler = Scheduler(url, clock=clock)
    runs: Counter[str] = Counter()
    lateness: list[float] = []

    @scheduler.handler("count")
    def count(payload: str, firing: object) -> None:
        runs[payload] += 1
        lateness.append(firing.lateness_ms)  # type: ignore[attr-defined]

    scheduler.start()
    steps = [step for step in STEPS_S for step in (step, -step)]  # each step, followed by the step back
    try:
        for number in range(jobs):
            scheduler.set(f"job-{number}", delay=dice.uniform(0, 2), payload=f"job-{number}", handler="count")
            if number % max(1, jobs // len(steps)) == 0 and steps:
                time.sleep(0.4)  # some jobs become due between two steps
                clock.step_ns += int(steps.pop(0) * 1e9)
        clock.step_ns = 0
        time.sleep(2.5)  # longer than the longest delay; the clock is not stepped any more
        deadline = time.monotonic() + PATIENCE_S
        while len(runs) < jobs and time.monotonic() < deadline:
            time.sleep(0.02)  # no signal reports a lost job, so the deadline bounds this
        time.sleep(0.5)  # if any job runs twice, the second run comes now
        with suppress(StoreError):
            scheduler.stats()
    finally:
        scheduler.stop()
    return Result(
        jobs=jobs,
        lost=jobs - len(runs),
        double=sum(runs.values()) - len(runs),
        early=sum(each < 0 for each in lateness),
        latest_ms=max(lateness, default=0.0),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", default=None, metavar="URL", help="None for a SQLite file")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as folder:
        result = prove(options.store or f"sqlite:///{Path(folder) / 'jobs.db'}", options.jobs, seed)
    is_prompt = result.latest_ms <= PROMPT_MS
    print(
        f"jobs {result.jobs}, lost {result.lost}, double {result.double}, early {result.early}, "
        f"latest {result.latest_ms:.0f} ms, seed {seed}"
    )
    return 0 if is_prompt and not (result.lost or result.double or result.early) else 1


if __name__ == "__main__":
    sys.exit(main())
