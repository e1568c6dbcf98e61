"""
The power-cut proof for batches: a node sets, claims and settles jobs in bulk, and its disk loses power at any step.

    python tests/prove/power_cut_batches.py --cuts 1000

Two callers set jobs in batches of up to 400, and cancel some of them in bulk. Most jobs are due at once, so that one
commit may set and claim them. Some are due within a third of a second. Some are due tomorrow, and their keys may
already have a job. The scheduler itself writes everything, on a recorded disk (`recorded_disk.py`). In about half of
the workloads an event hook is subscribed. With a hook, jobs may take another path through the engine.

After a cut, the file must be sound. The following faults are counted:

    lost        an acknowledged job is missing, although its handler had not returned, and no later job has its key
    uncounted   a job had started, and its attempt is not counted
    early       a handler ran before its job was due
    doubled     a job is still there after its success or cancel was acknowledged, or ran twice, or ran after its cancel

With `--synchronous normal` or `off` jobs must be lost. The exit code is then 1.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from power_cut import Image, asked, memory, reopened, store_of
from recorded_disk import RecordedDisk

from tickwheel.jobs.errors import StoreError
from tickwheel.observe.events import JobSucceeded
from tickwheel.scheduler import Firing, Outcome, Scheduler, SchedulerOptions, SetRequest

__all__ = ["Result", "prove"]

CUTS_A_RUN = 25
CALLERS = 2
CALLS = 12
SIZES = (1, 1, 7, 60, 400)
FAR_KEYS = 60
SOON_S = 0.3
DAY_S = 86_400.0
PATIENCE_S = 60.0


@dataclass(slots=True)
class Result:
    """
    The result of all cuts: the number of acknowledged set requests, and the number of faults of each kind.
    """

    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    early: int = 0
    doubled: int = 0
    uncounted: int = 0
    corrupt: int = 0
    said: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """
        True if no fault was found.
        """
        return not (self.lost or self.early or self.doubled or self.uncounted or self.corrupt)

    def add(self, kind: str, what: str) -> None:
        """
        Count a fault; only the first few are described.
        """
        setattr(self, kind, getattr(self, kind) + 1)
        self.said = (*self.said, f"{kind}: {what}")[:5]


@dataclass(slots=True)
class Course:
    """
    The record of a node's work. A step is a position in the record of the disk.

    Attributes:
        disk: The recorded disk.
        sets: By key, the step of each acknowledged set request, and the generation.
        cancels: By key, the step of the acknowledged cancel.
        starts: By key, the steps at which the handler was called.
        returns: By key, the step at which the handler first returned.
        settles: By key, the step at which an event hook received the job's success.
        early: The keys of jobs that started early.
    """

    disk: RecordedDisk
    sets: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    cancels: dict[str, int] = field(default_factory=dict)
    starts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    returns: dict[str, int] = field(default_factory=dict)
    settles: dict[str, int] = field(default_factory=dict)
    early: list[str] = field(default_factory=list)

    @property
    def now(self) -> int:
        """
        Current length of the disk's record, in steps.
        """
        return len(self.disk.steps)


def course(seed: int, synchronous: str) -> Course:
    """
    Run a node with two callers until all jobs have fired, and return the record.
    """
    dice = random.Random(seed)
    done = Course(RecordedDisk())
    with tempfile.TemporaryDirectory(dir=memory()) as folder, done.disk.under_sqlite():
        store = store_of(Path(folder) / "jobs.db", synchronous)
        options = SchedulerOptions(owner="node", horizon_s=2.0)
        with Scheduler(store, options=options) as scheduler:

            @scheduler.handler("note")
            def note(key: str, firing: Firing) -> None:
                done.starts[key].append(done.now)
                if firing.lateness_ms < 0:
                    done.early.append(key)
                done.returns.setdefault(key, done.now)

            def settled(event: object) -> None:
                if isinstance(event, JobSucceeded):
                    done.settles[event.key] = done.now

            if dice.random() < 0.5:
                scheduler.subscribe(settled)
            callers = [
                threading.Thread(target=_call, args=(scheduler, done, number, random.Random(dice.random())))
                for number in range(CALLERS)
            ]
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join(PATIENCE_S)
            _wait_until_fired(scheduler, done)
    return done


def _call(scheduler: Scheduler, done: Course, caller: int, dice: random.Random) -> None:
    """
    Set and cancel jobs in bulk. Each caller uses different keys.
    """
    for call in range(CALLS):
        requests = [_request(caller, f"{call}/{number}", dice) for number in range(dice.choice(SIZES))]
        for request, answer in zip(requests, scheduler.set_many(requests), strict=True):
            assert answer.job is not None
            done.sets[request.key].append((done.now, answer.job.generation))
        chosen = [each.key for each in requests if 0 < each.delay < DAY_S and dice.random() < 0.2]
        for key, answer in zip(chosen, scheduler.cancel_many(chosen), strict=True):
            if answer.outcome is Outcome.CANCELLED:
                done.cancels[key] = done.now


def _request(caller: int, name: str, dice: random.Random) -> SetRequest:
    chance = dice.random()
    key, delay = f"{caller}/{name}", 0.0
    if chance > 0.85:
        key, delay = f"far/{caller}/{dice.randrange(FAR_KEYS)}", DAY_S
    elif chance > 0.6:
        delay = SOON_S * dice.random()
    return SetRequest(key, delay=delay, payload=key, handler="note")


def _wait_until_fired(scheduler: Scheduler, done: Course) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while {key for key in list(done.sets) if not key.startswith("far/")} - done.cancels.keys() - done.returns.keys():
        if time.monotonic() > give_up:
            message = "some jobs never ran"
            raise RuntimeError(message)
        time.sleep(0.01)  # no signal says that all jobs have run
    while scheduler.stats()["running"]:
        time.sleep(0.01)  # no signal says that all ends are written


def judge(done: Course, result: Result) -> None:
    """
    Count the faults that show without a power cut: early starts and double starts.
    """
    for key in done.early:
        result.add("early", f"{key} started early")
    for key, steps in done.starts.items():
        if len(steps) > 1 or key in done.cancels:
            result.add("doubled", f"{key} started at the steps {steps}, and was cancelled at {done.cancels.get(key)}")


def cut(done: Course, dice: random.Random, result: Result) -> None:
    """
    Cut the power at a random step after the first acknowledged set, and count the faults in the resulting file.
    """
    result.cuts += 1
    first = min(step for acknowledged in done.sets.values() for step, _ in acknowledged)
    at = dice.randrange(first, done.now + 1)
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        for name, content in done.disk.after_cut(at, dice).items():
            if not name.endswith("-shm"):
                (Path(folder) / name).write_bytes(content)
        try:
            image = reopened(Path(folder) / "jobs.db")
        except (sqlite3.DatabaseError, StoreError) as error:
            result.add("corrupt", f"step {at}: {error}")
            return
    for key, sets in done.sets.items():
        generations = [generation for step, generation in sets if step <= at]
        if generations:
            result.acknowledged += 1
            for kind in _faults(done, key, generations[-1], at, image):
                result.add(kind, f"step {at}: {key}, generation {generations[-1]}, is {image.get(key)}")


def _faults(done: Course, key: str, generation: int, at: int, image: Image) -> Iterator[str]:
    """
    For a power cut at the step *at*, yield the kinds of faults that the job of *key* shows in the file.
    """
    never = done.now + 1
    if key not in image:
        if key not in done.cancels and done.returns.get(key, never) > at:
            yield "lost"
        return
    found, _, attempt, _ = image[key]
    if found < generation:
        yield "lost"
    if min(done.cancels.get(key, never), done.settles.get(key, never)) <= at:
        yield "doubled"
    if key in done.starts and done.starts[key][0] <= at and not attempt:
        yield "uncounted"


def prove(cuts: int, seed: int, synchronous: str = "full") -> Result:
    """
    Cut the power *cuts* times in all, up to `CUTS_A_RUN` times in each workload.
    """
    dice = random.Random(seed)
    result = Result()
    while result.cuts < cuts:
        done = course(dice.getrandbits(32), synchronous)
        judge(done, result)
        for _ in range(min(CUTS_A_RUN, cuts - result.cuts)):
            cut(done, dice, result)
    return result


def main() -> int:
    """
    Read the command line, run the proof, print one line, and return the exit code.
    """
    cuts, seed, synchronous = asked(__doc__)
    result = prove(cuts, seed, synchronous)
    print(
        f"cuts {result.cuts}, acknowledged {result.acknowledged}, lost {result.lost}, early {result.early}, "
        f"doubled {result.doubled}, uncounted {result.uncounted}, corrupt {result.corrupt}, "
        f"synchronous {synchronous}, seed {seed}"
    )
    for line in result.said:
        print(f"  {line}", file=sys.stderr)
    return 0 if result.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
