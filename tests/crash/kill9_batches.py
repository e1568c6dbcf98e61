"""
The crash proof for batches: a node sets and fires jobs in bulk, and is repeatedly killed with SIGKILL.

    python tests/crash/kill9_batches.py --kills 100 [--store sqlite | postgres | URL] [--every 0.05 1] [--seed N]

The node sets batches of up to a thousand jobs as fast as it can. Most jobs are due at once, so that one commit may set
and claim them. Some are due within half a second, and some of these are cancelled in bulk. The node appends the keys of
answered writes to files, and its handler appends a line for each call. In about half of the lives of the node, an event
hook appends the acknowledged settles. With a hook, jobs may take another path through the engine. Each killed node is
followed by a node with the same name, as in a container that is restarted in place. The last node sets nothing, and
lives until no job is pending.

The program counts the following faults and prints one line. The exit code is 0 if it finds no fault:

    lost      an acknowledged job has neither fired nor been cancelled
    early     a job fired before its due time
    doubled   a fire id was used twice, or a job fired twice in one life of the node
              or a job fired after its settle was acknowledged, or although its cancel was acknowledged
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kill9 import LEASE_S, PATIENCE_S, RETRY, after_settled, connected, start, url_of

from tickwheel.observe.events import JobSucceeded
from tickwheel.scheduler import Firing, Outcome, Scheduler, SchedulerOptions, SetRequest

__all__ = ["Result", "own", "prove"]

SIZES = (1, 10, 200, 1_000)
CALLERS = 2
SOON_S = 0.5
AHEAD_MAX = 4_000
"""Maximum number of jobs that are set and have not fired yet."""
FILES = ("set", "asked", "cancelled", "kept", "fired", "settled", "owners")
"""
Names of the files, which have a line for each job or for each start of a node.

"asked" has the jobs for which a cancel was sent. "kept" has the jobs that could not be cancelled.
"""
END = "."
"""Mark at the end of each complete line. If a kill cuts off a line, the mark is missing."""


class Log:
    """
    A file to which many lines are appended at once.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def add(self, lines: Iterable[str]) -> None:
        """
        Append *lines*, each on its own line, even if a kill has cut off the last line of the file.
        """
        os.write(self._descriptor, "".join(f"\n{line}{END}" for line in lines).encode())


def lines_of(path: Path) -> list[list[str]]:
    """
    Return the complete lines of *path*, each split into words.
    """
    return [line[: -len(END)].split() for line in path.read_text().splitlines() if line.endswith(END)]


class Room:
    """
    Limits the number of jobs that are set and have not fired yet to `AHEAD_MAX`.
    """

    def __init__(self) -> None:
        self._set, self._ended = itertools.count(), itertools.count()
        self._last = [0, 0]

    def take(self, jobs: int) -> None:
        """
        Wait until *jobs* more jobs are allowed, and count them.
        """
        while self._last[0] - self._last[1] > AHEAD_MAX:
            time.sleep(0.002)  # no signal says that jobs have ended
        for _ in range(jobs):
            self._last[0] = next(self._set)

    def give(self) -> None:
        """
        Count one job as fired.
        """
        self._last[1] = next(self._ended)


def own(folder: Path, url: str, seed: int, *, is_last: bool) -> None:
    """
    Run the node until it is killed.
    """
    logs = {name: Log(folder / name) for name in FILES}
    life = f"{time.time_ns():x}"
    dice = random.Random(f"{seed} {life}")
    room = Room()
    scheduler = Scheduler(url, options=SchedulerOptions(owner="container:1", horizon_s=2.0, retry=RETRY))

    @scheduler.handler("note")
    def note(_payload: object, firing: Firing) -> None:
        logs["fired"].add([f"{firing.job.key} {firing.fire_id} {firing.lateness_ms:.3f} {life}"])
        room.give()

    def settled(event: object) -> None:
        if isinstance(event, JobSucceeded):
            logs["settled"].add([f"{event.key}/{event.generation}/{event.attempt}"])

    if dice.random() < 0.5:
        scheduler.subscribe(settled)
    start(scheduler)
    logs["owners"].add([life])
    for caller in range(0 if is_last else CALLERS):
        numbers = random.Random(dice.random())
        threading.Thread(
            target=_set_all, args=(scheduler, logs, room, f"{life}-{caller}", numbers), daemon=True
        ).start()
    threading.Event().wait()


def _set_all(scheduler: Scheduler, logs: dict[str, Log], room: Room, name: str, dice: random.Random) -> None:
    for call in itertools.count():
        requests = [
            SetRequest(f"{name}-{call}-{number}", delay=0.0 if dice.random() < 0.7 else SOON_S, handler="note")
            for number in range(dice.choice(SIZES))
        ]
        room.take(len(requests))
        scheduler.set_many(requests)
        logs["set"].add(request.key for request in requests)
        chosen = [request.key for request in requests if request.delay and dice.random() < 0.2]
        logs["asked"].add(chosen)
        for key, answer in zip(chosen, scheduler.cancel_many(chosen), strict=True):
            is_cancelled = answer.outcome is Outcome.CANCELLED
            logs["cancelled" if is_cancelled else "kept"].add([key])
            if is_cancelled:
                room.give()


@dataclass
class Result:
    """
    The outcome of the proof, read from the files.

    Attributes:
        acknowledged: Number of jobs whose set request was answered.
        owners: Number of nodes that started.
        lost, early, doubled: The faults, in words.
    """

    acknowledged: int
    owners: int
    lost: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Result:
        """
        Compare the acknowledged jobs with the jobs that fired.
        """
        acknowledged, asked, cancelled, kept, settled = (
            {words[0] for words in lines_of(folder / name)} for name in ("set", "asked", "cancelled", "kept", "settled")
        )
        fired = lines_of(folder / "fired")
        keys = {key for key, *_ in fired}
        found = cls(len(acknowledged), len(lines_of(folder / "owners")))
        # A cancel whose answer was cut off by a kill may have taken effect.
        found.lost = sorted(acknowledged - keys - cancelled - (asked - kept))
        found.early = [f"{fire_id} came {late} ms late" for _, fire_id, late, _ in fired if float(late) < 0]
        found.doubled = [f"{key} fired, and was cancelled" for key in sorted(keys & cancelled)]
        found.doubled += [
            f"{fire_id} ran after its end" for fire_id in after_settled([each[1] for each in fired], settled)
        ]
        found.doubled += [f"the fire id {fire_id} was used twice" for fire_id in _repeated(each[1] for each in fired)]
        found.doubled += [
            f"{both} fired twice in one life" for both in _repeated(f"{each[0]} {each[3]}" for each in fired)
        ]
        return found


def _repeated(names: Iterable[str]) -> Iterator[str]:
    return (name for name, count in Counter(names).items() if count > 1)


@contextmanager
def node(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """
    Start a node, wait until it fires jobs, and kill it at the end with SIGKILL.
    """
    before = len(lines_of(folder / "owners"))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + PATIENCE_S
        while len(lines_of(folder / "owners")) == before:
            if process.poll() is not None or time.monotonic() > give_up:
                message = f"the node did not start, and ended with {process.poll()}"
                raise RuntimeError(message)
            time.sleep(0.005)  # the node is another process, which only writes a line
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def closing_client(url: str) -> Iterator[Scheduler]:
    """
    Yield a client that fires nothing, because it is not started.
    """
    client = connected(url)
    try:
        yield client
    finally:
        client.stop()


def prove(folder: Path, url: str, kills: int, every: tuple[float, float], seed: int) -> Result:
    """
    Kill *kills* nodes, each at a random time after its start.

    Let a last node fire the remaining jobs, and return the outcome.
    """
    dice = random.Random(seed)
    for name in FILES:
        (folder / name).touch()
    command = [sys.executable, str(Path(__file__).resolve()), "--own", str(folder), "--store", url, "--seed", f"{seed}"]
    for _ in range(kills):
        with node(command, folder):
            time.sleep(dice.uniform(*every))  # the kill is due at a random time
    with node([*command, "--last"], folder), closing_client(url) as client:
        give_up = time.monotonic() + PATIENCE_S
        while any(client.stats()[state] for state in ("pending", "running")) and time.monotonic() < give_up:
            time.sleep(0.05)  # only the store shows the progress of another process
        time.sleep(0.2)  # until the last hook has written its line
    return Result.read(folder)


def main() -> int:
    """
    Read the command line, run the proof, print one line, and return the exit code.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every", type=float, nargs=2, default=(0.05, 1.0), metavar=("FROM", "TO"))
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", default="sqlite", metavar="STORE", help="sqlite, postgres (started here), or a URL")
    parser.add_argument("--own", type=Path, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--last", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    if options.own is not None:
        own(options.own, options.store, seed, is_last=options.last)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = url_of(folder, options.store)
        if options.store == "postgres":
            sys.path.insert(0, str(Path(__file__).parents[1] / "prove"))
            from servers import postgres  # noqa: PLC0415 - a module of another folder

            url = f"{stack.enter_context(postgres()).url('postgres')}&lease_s={LEASE_S}"
        result = prove(folder, url, options.kills, tuple(options.every), seed)
    print(
        f"kills {result.owners - 1}, acknowledged {result.acknowledged}, lost {len(result.lost)}, "
        f"early {len(result.early)}, doubled {len(result.doubled)}, seed {seed}"
    )
    for line in (*result.lost[:5], *result.early[:5], *result.doubled[:5]):
        print(f"  {line}", file=sys.stderr)
    return 1 if result.lost or result.early or result.doubled or not result.acknowledged else 0


if __name__ == "__main__":
    sys.exit(main())
