"""
The crash proof: a client sets jobs while the process that fires them is repeatedly killed with SIGKILL.

    python tests/crash/kill9.py [--jobs 300] [--seconds 15] [--seed N] [--every 1 3] [--keep DIR]
        [--store sqlite | redis | URL] [--kill owner | server | both] [--named]

The store is a SQLite file, a redis-server that is started here and syncs before each answer, or the store of a URL.
Several processes use it:

* This process sets the jobs one after another, and records which of them were acknowledged.
* The owner fires the jobs. Its handler appends the fire id to a file. A hook appends it to another file when the store
  has acknowledged the settle.
* With `--kill server` or `both`, the redis-server is killed and restarted, too.

Each owner is killed after a random time, or with `--named` at a chosen point of its work (`fate.py`). The next owner
has the same host name and process id, as in a container that is restarted in place. The last owner lives until no job
is pending.

Then every acknowledged job must have fired. A job may have fired twice only if its first firing was not settled. No
firing may be early. The program prints one line, and the exit code is 0 if all this is true.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fate import POINTS, Fate

from tickwheel.observe.events import JobSucceeded
from tickwheel.scheduler import Firing, RetryPolicy, Scheduler, SchedulerOptions, StoreError
from tickwheel.stores import make_store

PATIENCE_S = 60.0
"""
Maximum number of seconds in which the last owner may fire the remaining jobs.
"""


RETRY = RetryPolicy(attempts=50)
"""A retry policy with enough attempts for a job that is running at each kill."""

LEASE_S = 1
"""Length of a lease in seconds: a killed owner keeps its shards that long, if the store uses leases."""


def url_of(folder: Path, store: str) -> str:
    """
    Return the URL of the kind of store *store*. If *store* is a URL, return it unchanged.
    """
    if store == "sqlite":
        return f"sqlite:///{folder / 'jobs.db'}"
    if store == "redis":
        return f"unix://{folder / 'redis'}?lease_s={LEASE_S}"
    return store


def append(path: Path, line: str) -> None:
    """
    Append *line* in one write, so that a SIGKILL leaves the whole line or no part of it.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def start(scheduler: Scheduler) -> None:
    """
    Start *scheduler* as soon as the server answers and the killed owner's lock is free.
    """
    while True:
        try:
            scheduler.start()
            break
        except StoreError:
            time.sleep(0.01)  # no signal says that the lock is free


def own(folder: Path, url: str, fate: Fate) -> None:
    """
    Run the owner until it is killed.
    """
    store = make_store(url)
    fate.watch(store)
    scheduler = Scheduler(store, options=SchedulerOptions(owner="container:1", horizon_s=2.0))

    @scheduler.handler("note")
    def note(payload: object, firing: Firing) -> None:
        append(folder / "fired", f"{payload} {firing.fire_id} {firing.lateness_ms:.3f}")
        fate.passes("in the handler")

    def settled(event: object) -> None:
        if isinstance(event, JobSucceeded):
            append(folder / "settled", f"{event.key}/{event.generation}/{event.attempt}")

    scheduler.subscribe(settled)
    start(scheduler)
    append(folder / "owners", str(os.getpid()))
    signal.pause()


@dataclass
class Victim:
    """
    A process that is repeatedly killed and started again.
    """

    command: list[str]
    dice: random.Random
    every: tuple[float, float]
    is_spared: bool = False
    has_fate: bool = False
    kills: int = 0
    process: subprocess.Popen[bytes] | None = None
    dies_at: float = 0.0

    def tend(self) -> None:
        """
        Start a process if none is running, and replace it if its lifetime is over.
        """
        if self.process is None:
            self.start()
        elif (time.monotonic() >= self.dies_at and not self.is_spared) or self.process.poll() is not None:
            self.kill()
            self.kills += 1
            self.start()

    def start(self) -> None:
        """
        Start the process with a random lifetime. If `has_fate` is true, the process may kill itself earlier.
        """
        fate = ["--fate", self.dice.choice(POINTS), str(self.dice.randrange(1, 60))] if self.has_fate else []
        self.process = subprocess.Popen([*self.command, *fate], stdout=subprocess.DEVNULL)
        self.dies_at = time.monotonic() + self.dice.uniform(*self.every)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


@dataclass
class Outcome:
    """
    The outcome of the proof, read from the files of the processes.
    """

    acknowledged: int
    lost: list[str]
    duplicates: int
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, acknowledged: set[str]) -> Outcome:
        """
        Compare the acknowledged jobs with the jobs that fired and were settled.
        """
        lines = [line.rsplit(" ", 2) for line in (folder / "fired").read_text().splitlines()]
        fired = Counter(payload for payload, _, _ in lines)
        order = [fire_id for _, fire_id, _ in lines]
        settled = set((folder / "settled").read_text().splitlines())
        # If the firing of a job was settled, the job may not fire again, neither with the same fire id nor as a later
        # attempt.
        wrong = list(after_settled(order, settled))
        wrong += [f"{fire_id} came {late} ms late" for _, fire_id, late in lines if float(late) < 0]
        lost = sorted(acknowledged - set(fired))
        return cls(len(acknowledged), lost, sum(fired.values()) - len(fired), wrong)


def after_settled(order: list[str], settled: set[str]) -> Iterator[str]:
    """
    Yield the fire id of each firing that began after an earlier firing of its generation was settled.
    """
    ended: set[str] = set()
    for fire_id in order:
        life = fire_id.rpartition("/")[0]
        if life in ended:
            yield fire_id
        if fire_id in settled:
            ended.add(life)


def redis_server(folder: Path) -> list[str]:
    """
    Return the command that starts a server which syncs each write before it answers.
    """
    durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    return ["redis-server", "--dir", str(folder), "--unixsocket", str(folder / "redis"), "--port", "0", *durable]


def prove(
    folder: Path, url: str, server: Victim | None, owner: Victim, *, jobs: int, seconds: float, dice: random.Random
) -> Outcome:
    """
    Set *jobs* jobs within *seconds* seconds, while the server and the owner are killed, and return the outcome.
    """
    victims = [victim for victim in (server, owner) if victim is not None]
    for victim in victims:
        victim.tend()
    client = connected(url)
    acknowledged: set[str] = set()
    begin = time.monotonic()
    try:
        for n in range(jobs):
            tend_until(begin + seconds * n / jobs, victims)
            delay = dice.uniform(0, 3)
            while f"job-{n}" not in acknowledged:
                try:
                    client.set(f"job-{n}", delay=delay, payload=f"job-{n}", handler="note", retry=RETRY)
                    acknowledged.add(f"job-{n}")
                except StoreError as error:
                    print(f"job-{n} was not acknowledged: {error}", file=sys.stderr)
                    if server is None:
                        break
                    tend_until(time.monotonic() + 0.01, victims)
        tend_until(begin + seconds, victims)
        wait_until_empty(client, owner)
    finally:
        owner.kill()
        client.stop()
        if server is not None:
            server.kill()
    return Outcome.read(folder, acknowledged)


def connected(url: str) -> Scheduler:
    """
    Return a client as soon as the server answers.
    """
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return Scheduler(url)
        except StoreError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.01)  # no signal reports that the server is back


def tend_until(instant: float, victims: list[Victim]) -> None:
    """
    Kill and restart the victims until *instant*.
    """
    while True:
        for victim in victims:
            victim.tend()
        if time.monotonic() >= instant:
            return
        time.sleep(0.002)  # the kills are due at instants of the clock


def wait_until_empty(client: Scheduler, owner: Victim) -> None:
    """
    Let the last owner live until no job is pending or running.
    """
    owner.kill()
    owner.has_fate = False
    owner.start()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(StoreError):  # a server that was killed last may still be starting
            if not any(client.stats()[state] for state in ("pending", "running")):
                break
        time.sleep(0.02)  # the owner is another process, and only the store shows its progress
    time.sleep(0.1)  # until the last hook has written its line


def main() -> int:
    """
    Read the command line, run the proof, print one line, and return the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--every", type=float, nargs=2, default=(1.0, 3.0), metavar=("FROM", "TO"))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=None, metavar="DIR", help="work in DIR and leave it")
    parser.add_argument("--store", default="sqlite", metavar="STORE", help="sqlite, redis, or a URL")
    parser.add_argument("--kill", default="owner", choices=("owner", "server", "both"))
    parser.add_argument("--named", action="store_true", help=f"owners kill themselves, too: {', '.join(POINTS)}")
    parser.add_argument("--fate", nargs=2, default=("", "0"), help=argparse.SUPPRESS)
    parser.add_argument("--own", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own is not None:
        own(options.own, options.store, Fate(options.fate[0], int(options.fate[1])))
    if options.kill != "owner" and options.store != "redis":
        parser.error("only a redis-server that is started here can be killed: write --store redis")
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory() as made:
        folder = options.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("fired", "settled"):
            (folder / name).touch()
        url, dice, every = url_of(folder, options.store), random.Random(seed), tuple(options.every)
        command = [sys.executable, str(Path(__file__).resolve()), "--own", str(folder), "--store", url]
        owner = Victim(command, dice, every, is_spared=options.kill == "server", has_fate=options.named)
        server = Victim(redis_server(folder), dice, every, is_spared=options.kill == "owner")
        outcome = prove(
            folder,
            url,
            server if options.store == "redis" else None,
            owner,
            jobs=options.jobs,
            seconds=options.seconds,
            dice=dice,
        )
        kills = owner.kills + server.kills
    print(
        f"acknowledged {outcome.acknowledged} of {options.jobs}, lost {len(outcome.lost)}, "
        f"duplicates {outcome.duplicates}, duplicates of settled or early firings {len(outcome.wrong)}, "
        f"kills {kills}, seed {seed}"
    )
    for line in (*outcome.lost, *outcome.wrong):
        print(f"  {line}", file=sys.stderr)
    return 1 if outcome.lost or outcome.wrong or outcome.acknowledged < options.jobs or not kills else 0


if __name__ == "__main__":
    sys.exit(main())
