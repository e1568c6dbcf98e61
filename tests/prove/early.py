"""
The proof that no job is early: jobs are due at any fraction of a millisecond, by the clock of their store.

    python tests/prove/early.py --jobs 100000 [--store URL]

Without a URL the store is a SQLite file. A server runs on this machine, so the handler can compare its start with the
server's clock to the nanosecond.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tickwheel.scheduler import Firing, Scheduler, SchedulerOptions, SetRequest

__all__ = ["prove"]

BATCH = 1_000
A_SECOND = 2_000
PATIENCE_S = 300.0


def prove(url: str, jobs: int, seed: int) -> tuple[int, float]:
    """
    Fire *jobs* jobs. Return the number of jobs that fired early, and the smallest lateness in ms.
    """
    dice = random.Random(seed)
    early: list[str] = []
    least: list[float] = [float("inf")]
    left = jobs
    done = threading.Event()
    counting = threading.Lock()

    def handler(_payload: object, firing: Firing) -> None:
        nonlocal left
        lateness_ns = time.time_ns() - firing.job.due_at * 1_000_000
        with counting:
            least[0] = min(least[0], lateness_ns / 1e6)
            if lateness_ns < 0:
                early.append(firing.job.key)
            left -= 1
            if not left:
                done.set()

    with Scheduler(url, options=SchedulerOptions(workers=2)) as scheduler:
        scheduler.handler("h", timeout=None)(handler)
        scheduler.start()
        for first in range(0, jobs, BATCH):
            start = time.time() + 0.5
            count = min(BATCH, jobs - first)
            scheduler.set_many(
                SetRequest(f"{first + n}", at=start + dice.random() * count / A_SECOND, handler="h")
                for n in range(count)
            )
            done.wait(max(0.0, start + count / A_SECOND - 0.5 - time.time()))
        if not done.wait(PATIENCE_S):
            message = f"{left} of {jobs} jobs have not fired"
            raise TimeoutError(message)
    return len(early), least[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", default="", metavar="URL")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with ExitStack() as stack:
        url = options.store
        if not url:
            url = f"sqlite:///{Path(stack.enter_context(tempfile.TemporaryDirectory())) / 'jobs.db'}"
        early, least_ms = prove(url, options.jobs, seed)
    print(f"jobs {options.jobs}, early {early}, least lateness {least_ms:.3f} ms, seed {seed}")
    return 1 if early else 0


if __name__ == "__main__":
    sys.exit(main())
