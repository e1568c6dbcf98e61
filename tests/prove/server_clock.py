"""
The proof of the server's clock: a node dies, and the clock of the database is set before the node's leases expire.

    python tests/prove/server_clock.py --kind postgres [--rounds 2]

The server is a real server with an interposed clock. The clock is set back by an hour and corrected, and then set back
by five seconds and corrected. Before each of these steps, one of two nodes is killed. The nodes share jobs with
`every=1`. However the clock is set, the other node must continue all jobs, and no job may be silent for longer than the
promise allows.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from unittest import mock

from clock_trips import interposed
from servers import postgres, redis_url
from sigstop import append, until

from tickwheel.scheduler import Scheduler
from tickwheel.stores import open_store

__all__ = ["Result", "prove"]

JOBS = 24
OFF_S = (-3600.0, 0.0, -5.0, 0.0)
"""The errors of the server's clock in seconds, which are set one after another."""
DYING_S = 0.3
"""Seconds from a node's death to the clock step. The node's leases of one second are still valid then."""
TAKEOVER_S = 8.0
SILENT_S = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    steps: int
    runs: int
    silent_s: float

    @property
    def is_good(self) -> bool:
        return self.silent_s < SILENT_S


@contextmanager
def server(kind: str, environment: dict[str, str]) -> Iterator[str]:
    """
    Provide the URL of a server of that *kind*, which runs in *environment*.

    Leases of the store last one second.
    """
    with mock.patch.dict(os.environ, environment):
        lent = postgres() if kind == "postgres" else redis_url()
        started = lent.__enter__()
    try:
        yield started if kind == "redis" else f"{started.url('postgres')}&lease_s=1"
    finally:
        lent.__exit__(None, None, None)


def node(folder: Path, url: str) -> Scheduler:
    scheduler = Scheduler(url)

    @scheduler.handler("note")
    def note(payload: str) -> None:
        append(folder / "runs", f"{payload} {time.monotonic()}")

    return scheduler.start()


def prove(kind: str, rounds: int) -> Result:
    """
    Give the server's clock each of the errors in `OFF_S` while a node is dead. Repeat this *rounds* times.
    """
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)  # PostgreSQL runs as the user "nobody"
        with interposed(folder) as (environment, set_by), server(kind, environment) as url:
            command = [sys.executable, __file__, "--kind", kind, "--own", made, "--store", url]
            survivor, looker = node(folder, url), open_store(url)
            doomed = subprocess.Popen(command)
            try:
                for number in range(JOBS):
                    survivor.set(f"job-{number}", every=1, payload=f"job-{number}", handler="note")
                began, steps = time.monotonic(), 0
                for off in itertools.chain.from_iterable([OFF_S] * rounds):
                    until(lambda: len({shard.owner for shard in looker.shards()}) == 2)
                    doomed.kill()
                    doomed.wait()
                    time.sleep(DYING_S)
                    set_by(off)
                    steps += 1
                    time.sleep(TAKEOVER_S)
                    doomed = subprocess.Popen(command)
                return read(folder / "runs", began, time.monotonic(), steps)
            finally:
                doomed.kill()
                doomed.wait()
                survivor.stop()
                looker.close()


def read(runs: Path, began: float, ended: float, steps: int) -> Result:
    """
    Return the counts for the runs in the file *runs* between the times *began* and *ended*.
    """
    times: dict[str, list[float]] = {f"job-{number}": [began, ended] for number in range(JOBS)}
    for line in runs.read_text().splitlines():
        key, at = line.split()
        if began <= float(at) <= ended:
            times[key].append(float(at))
    silent_s = max(after - before for each in times.values() for before, after in pairwise(sorted(each)))
    return Result(steps, sum(map(len, times.values())) - 2 * JOBS, silent_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("postgres", "redis"), required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--own", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--store", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own is not None:
        with node(options.own, options.store):
            signal.pause()
    result = prove(options.kind, options.rounds)
    print(f"steps {result.steps}, runs {result.runs}, silent longest {result.silent_s:.1f} s")
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
