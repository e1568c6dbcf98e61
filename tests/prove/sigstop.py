"""
The proof of the zombie: of two owners on one store, one is repeatedly suspended by SIGSTOP past its lease.

    python tests/prove/sigstop.py --rounds 3 --store URL

The other owner takes over. When the suspended owner continues, all its acknowledgements must be refused. No job may be
lost, and no generation may be settled twice. This process sets jobs all the time, and the store notifies the owners of
them. No job may be silent for 5 s, whichever owner was suspended when the job was set. The URL names a store with
leases, and has `lease_s=1`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from node_command import run_command

from tickwheel.observe.events import JobSucceeded, SettleRefused
from tickwheel.scheduler import Firing, RetryPolicy, Scheduler, StoreError

__all__ = ["Result", "prove"]

JOBS_A_ROUND = 150
STOPPED_S = 3.5
GOING_ON_S = 3.0
"""Seconds for which jobs are still set after the suspended owner has continued."""
SILENT_S = 5.0
PATIENCE_S = 180.0
"""Maximum wait in seconds. On a busy machine a node may lose its lease of one second at times."""
PATIENT = RetryPolicy(attempts=1000)
"""A retry policy with many attempts, because each lost lease costs a running job an attempt."""


def append(path: Path, line: str) -> None:
    """
    Append *line* in one write.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def own(folder: Path, url: str, name: str) -> None:
    """
    Run one of the two owners until it is asked to stop.
    """
    scheduler = Scheduler(url)

    @scheduler.handler("note")
    def note(_payload: object, firing: Firing) -> None:
        append(folder / "noted", f"{firing.job.key} {time.time()}")

    @scheduler.handler("work", concurrency=4)
    def work(payload: float, firing: Firing) -> None:
        append(folder / "fired", f"{name} {firing.fire_id} {firing.lateness_ms:.3f}")
        time.sleep(payload)

    def told(event: object) -> None:
        if isinstance(event, (JobSucceeded, SettleRefused)):
            what = "settled" if isinstance(event, JobSucceeded) else "refused"
            append(folder / what, f"{name} {event.key}/{event.generation}/{event.attempt}")

    scheduler.subscribe(told)
    scheduler.start()
    append(folder / "up", name)
    signal.sigwait({signal.SIGTERM})
    scheduler.stop(timeout=5.0)


@dataclass(slots=True)
class Result:
    """
    The counts of the proof, summed over the files of all processes.
    """

    jobs: int
    lost: int
    unfinished: int
    early: int
    settled_twice: int
    refused: int
    duplicates: int
    notes: int
    silent_s: float

    @property
    def is_good(self) -> bool:
        """
        True if no fault was found, and a zombie's write was refused.
        """
        wrong = self.lost or self.unfinished or self.early or self.settled_twice
        return not wrong and self.refused > 0 and self.notes > 0 and self.silent_s < SILENT_S


def prove(url: str, rounds: int, seed: int) -> Result:
    """
    Suspend one of two owners while it works, *rounds* times.
    """
    dice = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the owners inherit this, and wait for the signal
    client = Scheduler(url)
    keys: list[str] = []
    noted: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("fired", "settled", "refused", "noted", "up"):
            (folder / name).touch()
        command = [sys.executable, str(Path(__file__).resolve()), "--own", made, "--store", url, "--name"]
        nodes = {name: subprocess.Popen([*command, name]) for name in ("one", "two")}
        try:
            until(lambda: len((folder / "up").read_text().split()) == len(nodes))
            time.sleep(1.5)  # by then both have their share of the shards
            for number in range(rounds):
                for job in range(JOBS_A_ROUND):
                    key = f"job-{number}-{job}"
                    payload = dice.choice((0.01, 0.3, 0.8))
                    client.set(key, delay=dice.uniform(0, 4), payload=payload, handler="work", retry=PATIENT)
                    keys.append(key)
                time.sleep(1.0)
                process = nodes[dice.choice(("one", "two"))]
                process.send_signal(signal.SIGSTOP)
                leave_notes(client, noted, dice, STOPPED_S)
                process.send_signal(signal.SIGCONT)
                leave_notes(client, noted, dice, GOING_ON_S)
            until(lambda: is_empty(client))
            left = {job.key for prefix in ("job-", "note-") for job in client.list(prefix, limit=1000).jobs}
        finally:
            for process in nodes.values():
                process.send_signal(signal.SIGCONT)
                process.terminate()
                process.wait(PATIENCE_S)
            client.stop()
        return read(folder, keys, noted, left)


def leave_notes(client: Scheduler, noted: dict[str, float], dice: random.Random, seconds: float) -> None:
    """
    For *seconds* seconds, set jobs that are due at once or soon, and record when each of them may fire.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        key = f"note-{len(noted)}"
        job = client.set(key, delay=dice.choice((0.0, 0.5, 1.5)), handler="note", retry=PATIENT).job
        assert job is not None
        noted[key] = max(job.due_at / 1000, time.time())
        time.sleep(0.02)


def until(condition: object) -> None:
    """
    Wait until *condition* holds, or for `PATIENCE_S`.
    """
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(StoreError):
            if condition():  # type: ignore[operator]
                return
        time.sleep(0.02)


def is_empty(client: Scheduler) -> bool:
    """
    Return True if every job has ended.
    """
    stats = client.stats()
    return not (stats["pending"] or stats["running"])


def read(folder: Path, keys: list[str], noted: dict[str, float], left: set[str]) -> Result:
    """
    Count the records in the owners' files, except those of the jobs *left* in the store.
    """
    fired = [line.split() for line in (folder / "fired").read_text().splitlines()]
    settled = [line.split()[1].rpartition("/")[0] for line in (folder / "settled").read_text().splitlines()]
    keys = [*keys, *noted]
    first: dict[str, float] = {}
    for key, at in (line.split() for line in (folder / "noted").read_text().splitlines()):
        first[key] = min(float(at), first.get(key, float("inf")))
    ended = {life.rpartition("/")[0] for life in settled}
    lives = Counter(fire_id.rpartition("/")[0] for _, fire_id, _ in fired)
    for key in sorted((set(keys) - ended) | left)[:5]:
        said = [f"{what}: {line}" for what in ("fired", "refused") for line in _lines_of(folder / what, key)]
        print(f"  {key}: {'; '.join(said) or 'never fired'}", file=sys.stderr)
    return Result(
        jobs=len(keys),
        lost=len(set(keys) - ended - left),
        unfinished=len(left),
        early=sum(float(lateness) < 0 for _, _, lateness in fired),
        settled_twice=sum(count > 1 for count in Counter(settled).values()),
        refused=len((folder / "refused").read_text().splitlines()),
        duplicates=sum(lives.values()) - len(lives),
        notes=len(noted),
        silent_s=max((first[key] - at for key, at in noted.items() if key in first), default=0.0),
    )


def _lines_of(path: Path, key: str) -> list[str]:
    return [line for line in path.read_text().splitlines() if f" {key}/" in line]


def line_of(result: Result) -> str:
    """
    Return the result of a run in one line.
    """
    return (
        f"jobs {result.jobs}, lost {result.lost}, unfinished {result.unfinished}, early {result.early}, "
        f"settled twice {result.settled_twice}, "
        f"settles refused {result.refused}, duplicates {result.duplicates}, "
        f"notes {result.notes}, silent longest {result.silent_s:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(run_command(__doc__, 3, own, prove, line_of))
