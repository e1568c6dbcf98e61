"""
The proof of the rolling deployment: nodes of two versions come and go, and each version has a handler of its own.

    python tests/prove/rolling.py --rounds 2 --store URL

In each round the nodes are replaced one after another by nodes of the other version. Meanwhile this process sets and
cancels jobs for the handlers of both versions. Some jobs run longer than a node takes to start. Running jobs stay with
their node while shards change hands, so no job may be lost, die or start twice. No job may be silent for 5 s while a
live node has its handler.

The URL names a store with leases, and has `lease_s=1`. If the machine stalls for longer than a lease, jobs may begin
twice or late. The run then proves nothing and is repeated, at most three times.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from node_command import run_command
from sigstop import append, is_empty, until
from stalls import STALLED_S, Stalls

from tickwheel.observe.events import JobDied
from tickwheel.scheduler import Firing, Scheduler, SchedulerOptions

__all__ = ["Result", "prove"]

HANDLERS: Final = ("both", "first", "second")
NODES: Final = 3
SILENT_S: Final = 5.0
BETWEEN_S: Final = 1.5
"""Seconds between the replacements of two nodes."""
PATIENCE_S: Final = 60.0
TRIES: Final = 3


def own(folder: Path, url: str, name: str) -> None:
    """
    Run a node until it is asked to stop.

    *name* begins with the version of the node.
    """
    scheduler = Scheduler(url, options=SchedulerOptions(owner=name, workers=64))

    def work(payload: float, firing: Firing) -> None:
        at, job = time.time(), firing.job
        append(folder / "fired", f"{name} {firing.fire_id} {job.handler} {at} {job.due_at / 1000}")
        time.sleep(payload)

    for handler in ("both", name.partition("-")[0]):
        scheduler.handler(handler)(work)
    scheduler.subscribe(lambda event: isinstance(event, JobDied) and append(folder / "died", f"{name} {event.key}"))
    scheduler.start()
    append(folder / "up", f"{name} {time.time()}")
    with Stalls() as stalls:
        signal.sigwait({signal.SIGTERM})
        append(folder / "down", f"{name} {time.time()}")
        scheduler.stop(timeout=PATIENCE_S)
    append(folder / "stalled", f"{name} {stalls.longest_s}")


@dataclass(slots=True)
class Told:
    """
    The answers received: the time of each set and of each cancel, by key and generation.
    """

    sets: list[tuple[str, int, float]] = field(default_factory=list)
    cancels: dict[tuple[str, int], float] = field(default_factory=dict)


@dataclass(slots=True)
class Result:
    acknowledged: int
    lost: int
    overtaken: int
    early: int
    silent_s: float
    repeated: int
    beside: int
    died: int
    misplaced: int
    waited: int
    stalled_s: float

    @property
    def is_good(self) -> bool:
        """
        True if no fault was found, and if some jobs had to wait for a node with their handler.
        """
        return self.is_sound and not self.beside and self.silent_s < SILENT_S

    @property
    def is_sound(self) -> bool:
        """
        True if there was no fault, apart from faults that a stall of the machine can explain.
        """
        wrong = self.lost or self.overtaken or self.early or self.repeated or self.died or self.misplaced
        return not wrong and self.waited > 0


def ask(client: Scheduler, dice: random.Random, told: Told, is_over: threading.Event) -> None:
    for number in iter(lambda: len(told.sets), None):
        if is_over.wait(0.01):
            return
        takes = dice.choice((0.0, 0.0, 0.0, 3.0))
        delay = dice.choice((0.0, 0.3, 1.5))
        key, handler = f"job-{number}", dice.choice(HANDLERS)
        job = client.set(key, delay=delay, handler=handler, payload=takes).job
        assert job is not None
        told.sets.append((key, job.generation, time.time()))
        if dice.random() < 0.1:
            time.sleep(dice.choice((0.0, max(0.0, delay - 0.02))))
            answer = client.cancel(key)
            if answer.outcome.value == "cancelled":
                told.cancels[key, job.generation] = time.time()


def prove(url: str, rounds: int, seed: int) -> Result:
    """
    Replace all nodes by nodes of the other version, *rounds* times. If the machine stalled, repeat the whole run.
    """
    for _ in range(TRIES):
        result = deploy(url, rounds, seed)
        if result.is_good or not result.is_sound or result.stalled_s < STALLED_S:
            break
        print(f"the machine stalled for {result.stalled_s:.1f} s, so once more: {line_of(result)}", flush=True)
    return result


def deploy(url: str, rounds: int, seed: int) -> Result:
    dice, told, is_over = random.Random(seed), Told(), threading.Event()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # the nodes inherit this, and wait for the signal
    with tempfile.TemporaryDirectory() as made, Scheduler(url) as client:
        folder = Path(made)
        for name in ("fired", "died", "up", "down", "stalled"):
            (folder / name).touch()
        command = [sys.executable, str(Path(__file__).resolve()), "--own", made, "--store", url, "--name"]
        nodes: list[subprocess.Popen[bytes]] = []

        def start(name: str) -> subprocess.Popen[bytes]:
            count = len(lines(folder / "up"))
            node = subprocess.Popen([*command, name])
            nodes.append(node)
            until(lambda: len(lines(folder / "up")) > count)
            return node

        caller = threading.Thread(target=ask, args=(client, dice, told, is_over))
        try:
            current = [start(f"first-{number}") for number in range(NODES)]
            caller.start()
            for turn in range(1, rounds + 1):
                for number in range(NODES):
                    time.sleep(BETWEEN_S)
                    node, current[number] = current[number], start(f"{HANDLERS[1 + turn % 2]}-{turn}-{number}")
                    node.terminate()
                    node.wait(PATIENCE_S)
            is_over.set()
            caller.join()
            time.sleep(BETWEEN_S)
            start(f"{HANDLERS[1 + (rounds + 1) % 2]}-last")
            until(lambda: is_empty(client))
        finally:
            is_over.set()
            for node in nodes:
                node.terminate()
                node.wait(PATIENCE_S)
        return judge(folder, told)


def lines(path: Path) -> list[list[str]]:
    """
    Return the lines of *path*, each split into words.
    """
    return [line.split() for line in path.read_text().splitlines()]


def covered_since(up: list[list[str]], down: dict[str, float], handler: str, at: float) -> float:
    """
    Return the start of the last period, up to *at*, in which there was always a live node with *handler*.
    """
    spans = sorted(
        (float(since), down.get(name, float("inf")))
        for name, since in up
        if handler in ("both", name.partition("-")[0])
    )
    since, until_ = at, 0.0
    for start, end in spans:
        if start > at:
            break
        since, until_ = (start, end) if start > until_ else (since, max(until_, end))
    return since


def judge(folder: Path, told: Told) -> Result:
    up, down = lines(folder / "up"), {name: float(at) for name, at in lines(folder / "down")}
    answered = {(key, generation): at for key, generation, at in told.sets}
    starts: Counter[tuple[str, int]] = Counter()
    fire_ids: Counter[str] = Counter()
    overtaken = early = misplaced = waited = 0
    silent: list[float] = []
    for name, fire_id, handler, at_text, due_text in lines(folder / "fired"):
        key, generation, _ = fire_id.rsplit("/", 2)
        life, at, due = (key, int(generation)), float(at_text), float(due_text)
        starts[life] += 1
        fire_ids[fire_id] += 1
        early += at < due
        overtaken += at > told.cancels.get(life, float("inf"))
        misplaced += handler not in ("both", name.partition("-")[0])
        since = covered_since(up, down, handler, at)
        expected = max(due, answered.get(life, due))
        waited += since > expected
        silent.append(at - max(expected, since))
    generations = Counter(generation for _, generation, _ in told.sets)
    return Result(
        acknowledged=len(told.sets) + len(told.cancels),
        lost=len([life for life in answered if life not in starts and life not in told.cancels]),
        overtaken=overtaken,
        early=early,
        silent_s=max(silent, default=0.0),
        repeated=sum(count > 1 for count in (*generations.values(), *fire_ids.values())),
        beside=sum(count > 1 for count in starts.values()),
        died=len(lines(folder / "died")),
        misplaced=misplaced,
        waited=waited,
        stalled_s=max((float(each[1]) for each in lines(folder / "stalled")), default=0.0),
    )


def line_of(result: Result) -> str:
    return (
        f"acknowledged {result.acknowledged}, lost {result.lost}, overtaken {result.overtaken}, early {result.early}, "
        f"silent longest {result.silent_s:.1f} s, repeated ids {result.repeated}, started twice {result.beside}, "
        f"dead {result.died}, where the handler is missing {result.misplaced}, waited for a handler {result.waited}"
    )


if __name__ == "__main__":
    sys.exit(run_command(__doc__, 2, own, prove, line_of))
