"""
The proof of the failover: a primary is lost under load, and another server takes its place.

    python tests/prove/failover.py [--mode sync | async | cluster | partitions | sentinels] [--seconds 12] [--bulk 2000]

Two owners fire jobs while this process sets and cancels jobs. Midway, the primary is killed while this process sets
many jobs in bulk. Each call that sets jobs in bulk is repeated until it is answered. The modes are:

    sync        PostgreSQL: every commit waits for the standby, which is then promoted
    async       PostgreSQL: the standby is cut off two seconds before, so it lacks the last writes
    cluster     Redis Cluster: a write is answered as soon as one of two replicas has it; one is promoted
    partitions  a store with three partitions on a Redis Cluster, one of which loses its master
    sentinels   Redis Sentinel: writes do not wait for the replica that is promoted

With `async` and `sentinels`, a write may be missing if it was answered after the replication began to lag and before
the promotion. With the other modes nothing may be lost. No generation may be used twice, and no attempt may begin
twice.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servers import postgres_pair, redis_group
from sigstop import append, is_empty, until

from tickwheel.jobs.model import Outcome
from tickwheel.scheduler import Firing, RetryPolicy, Scheduler, SetRequest, StoreError

__all__ = ["Result", "prove"]

SILENT_S = 5.0
PATIENCE_S = 120.0
LAG_S = 2.0
LOT = 100
"""Number of jobs that one call sets in bulk."""
BULK_S = 10.0
"""Period in seconds in which the jobs that are set in bulk become due."""
AGAIN_S = 0.05
"""Seconds between repetitions of a call that sets jobs in bulk and gets no answer."""
SETTLED_S = 3.0
"""
Seconds after an outage until jobs must fire in time again.
"""
PATIENT = RetryPolicy(attempts=1000)


def own(folder: Path, url: str, name: str) -> None:
    """
    Run one of the two owners until it is killed or asked to stop.
    """
    scheduler = Scheduler(url)

    @scheduler.handler("work")
    def work(_payload: object, firing: Firing) -> None:
        append(folder / "fired", f"{firing.fire_id} {time.time()} {firing.job.due_at / 1000}")

    scheduler.start()
    append(folder / "up", name)
    signal.sigwait({signal.SIGTERM})
    with suppress(StoreError):
        scheduler.stop(timeout=5.0)


GROUPS = {
    "sync": lambda: postgres_pair(is_synchronous=True),
    "async": lambda: postgres_pair(is_synchronous=False),
    "cluster": lambda: redis_group("RedisCluster", replicas=2),
    "partitions": lambda: redis_group("RedisCluster", replicas=2),
    "sentinels": lambda: redis_group("RedisSentinels"),
}


OPTIONS = {"cluster": "&replicas=1", "partitions": "&replicas=1&partitions=3"}


@dataclass(slots=True)
class Told:
    """
    The answers that this process has received, and the time of each answer.
    """

    sets: list[tuple[str, int, float]] = field(default_factory=list)
    cancels: dict[tuple[str, int], float] = field(default_factory=dict)
    pause_s: float = 0.0
    """Longest time between two answers to calls that set jobs in bulk."""


@dataclass(slots=True)
class Result:
    """
    The counts of the proof.

    Writes that asynchronous replication may lose are counted separately.
    """

    acknowledged: int
    lost: int
    lost_with_the_primary: int
    overtaken: int
    early: int
    silent_s: float
    repeated: int
    left: int
    pause_s: float

    @property
    def is_good(self) -> bool:
        """
        True if no fault was found.
        """
        wrong = self.lost or self.overtaken or self.early or self.repeated or self.left
        return not wrong and self.silent_s < SILENT_S


def ask(client: Scheduler, dice: random.Random, told: Told, until_s: float) -> None:
    """
    Set jobs and cancel some of them, until the time *until_s*.
    """
    while time.time() < until_s:
        key = f"job-{len(told.sets)}-{dice.randrange(10**9)}"
        with suppress(StoreError):  # without an answer nothing is promised
            job = client.set(key, delay=dice.uniform(0.0, 3.0), handler="work", retry=PATIENT).job
            assert job is not None
            told.sets.append((key, job.generation, time.time()))
        if dice.random() < 0.2 and told.sets:
            key, _, _ = dice.choice(told.sets[-20:])
            with suppress(StoreError):
                answer = client.cancel(key)
                if answer.outcome is Outcome.CANCELLED and answer.job is not None:
                    told.cancels[key, answer.job.generation] = time.time()
        time.sleep(0.005)


def set_in_bulk(client: Scheduler, told: Told, count: int, half: threading.Event) -> None:
    """
    Set *count* jobs, `LOT` in each call, and set the event *half* midway. Repeat each call until it is answered.
    """
    answered_at = time.monotonic()
    for first in range(0, count, LOT):
        numbers = range(first, min(first + LOT, count))
        requests = [
            SetRequest(f"bulk-{number}", delay=BULK_S * (number + 1) / count, handler="work", retry=PATIENT)
            for number in numbers
        ]
        while True:
            try:
                answers = client.set_many(requests)
            except StoreError:
                time.sleep(AGAIN_S)  # nothing signals that a primary is back
            else:
                break
        at, now = time.time(), time.monotonic()
        told.pause_s, answered_at = max(told.pause_s, now - answered_at), now
        told.sets += [(each.job.key, each.job.generation, at) for each in answers if each.job is not None]
        if 2 * numbers[-1] >= count - LOT:
            half.set()


def prove(mode: str, seconds: float, seed: int, bulk: int) -> Result:
    """
    Kill the primary after half of *seconds*. Return the counts.
    """
    dice = random.Random(seed)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the owners inherit this, and wait for the signal
    told = Told()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("fired", "up"):
            (folder / name).touch()
        group = stack.enter_context(GROUPS[mode]())
        url = f"{group.url}lease_s=1{OPTIONS.get(mode, '')}"
        client = Scheduler(url)
        stack.callback(client.stop)
        client.stats()  # creates the store
        command = [sys.executable, str(Path(__file__).resolve()), "--own", str(folder), "--store", url, "--name"]
        nodes = [subprocess.Popen([*command, name]) for name in ("one", "two")]
        try:
            until(lambda: len((folder / "up").read_text().split()) == len(nodes))
            ask(client, dice, told, time.time() + seconds / 2)
            cut = time.time() - 0.2  # writes answered just before may still be on their way to the standby
            if mode == "async":
                group.detach()
                ask(client, dice, told, time.time() + LAG_S)
            half = threading.Event()
            pool = stack.enter_context(ThreadPoolExecutor(1))
            whole = pool.submit(set_in_bulk, client, told, bulk, half)
            half.wait(PATIENCE_S)
            group.fail_over()
            if mode not in {"sync", "async"}:
                group.await_successor()
            over = time.time()
            whole.result(PATIENCE_S)
            ask(client, dice, told, time.time() + seconds / 2)
            until(lambda: is_empty(client))
            left = 0 if is_empty(client) else 1
        finally:
            for process in nodes:
                process.terminate()
                process.wait(60)
        lines = [line.split() for line in (folder / "fired").read_text().splitlines()]
    window = (cut, over) if mode in {"async", "sentinels"} else (over, over)
    return judge(told, [(each[0], float(each[1]), float(each[2])) for each in lines], window, over, left)


def judge(
    told: Told, fired: list[tuple[str, float, float]], window: tuple[float, float], over: float, left: int
) -> Result:
    starts: dict[tuple[str, int], list[float]] = {}
    for fire_id, at, _ in fired:
        key, generation, _ = fire_id.rsplit("/", 2)
        starts.setdefault((key, int(generation)), []).append(at)
    answered = {(key, generation): at for key, generation, at in told.sets}
    missing = [life for life in answered if life not in starts and life not in told.cancels]
    excused = [life for life in missing if window[0] <= answered[life] <= window[1]]
    overtaken = [
        life
        for life, at in told.cancels.items()
        if any(start > at for start in starts.get(life, ())) and not window[0] <= at <= window[1]
    ]
    final = {key: (generation, at) for (key, generation), at in answered.items()}
    overtaken += [
        (key, generation)
        for (key, generation), begun in starts.items()
        if key in final and generation < final[key][0] and max(begun) > final[key][1]
    ]
    healthy = over + SETTLED_S
    silent = [
        at - max(due, answered.get(_life_of(fire_id), due))
        for fire_id, at, due in fired
        if not window[0] - 5 <= max(due, answered.get(_life_of(fire_id), due)) <= healthy
    ]
    generations = Counter(generation for _, generation, _ in told.sets)
    attempts = Counter(fire_id for fire_id, at, _ in fired if not window[0] - 5 <= at <= over)
    return Result(
        acknowledged=len(told.sets) + len(told.cancels),
        lost=len(missing) - len(excused),
        lost_with_the_primary=len(excused),
        overtaken=len(overtaken),
        early=sum(at < due for _, at, due in fired),
        silent_s=max(silent, default=0.0),
        repeated=sum(count > 1 for count in (*generations.values(), *attempts.values())),
        left=left,
        pause_s=told.pause_s,
    )


def _life_of(fire_id: str) -> tuple[str, int]:
    key, generation, _ = fire_id.rsplit("/", 2)
    return key, int(generation)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=tuple(GROUPS), default="sync")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--bulk", type=int, default=2_000, help="number of jobs in the bulk set")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", default="", help=argparse.SUPPRESS)
    parser.add_argument("--own", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    options: Any = parser.parse_args()
    if options.own is not None:
        own(options.own, options.store, options.name)
        return 0
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    result = prove(options.mode, options.seconds, seed, options.bulk)
    print(
        f"acknowledged {result.acknowledged}, lost {result.lost} (with the primary {result.lost_with_the_primary}), "
        f"overtaken {result.overtaken}, early {result.early}, silent longest {result.silent_s:.1f} s, "
        f"longest pause of the bulk set {result.pause_s:.1f} s, repeated ids {result.repeated}, left {result.left}, "
        f"seed {seed}"
    )
    return 0 if result.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
