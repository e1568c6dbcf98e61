"""
The proof of the clock on SQLite: the time of day of one process is set back, set ahead, and set wrong for a short time.

    python tests/prove/clock_trips.py [--trips 12] [--seed 7] [--only back]

The scheduler runs in a child process with an interposed `clock_gettime`. The parent process sets the offset of this
clock during the test. The scheduler has one job far ahead, one job with `every=1`, and one job with a cron line for
every second. Jobs with `delay=` and `at=` are set continuously. Requirements:

    every    runs at whole seconds of elapsed time after its first run, and is never silent for longer than 2 s
    cron     runs as the wall clock shows its seconds, and is never silent for longer than 2 s
    delay    runs after the requested time, and within a second of that
    at       runs when the wall clock shows its instant, and within a second of that
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

__all__ = ["build_clock", "interposed", "judge", "main", "scenarios"]

Step = tuple[float, float]
"""A clock step: its time in seconds since the beginning, and the error of the time of day after it."""

HOUR: Final = 3600.0
PAUSE_S: Final = 0.05
STALLED_S: Final = 0.15
"""
Maximum time in seconds for setting two jobs. A slower machine is unfit for the proof.
"""
TRIES: Final = 3
SETTLED_S: Final = 6.0
LATE_S: Final = 1.0
SILENT_S: Final = 2.0
EARLY_S: Final = 0.002
"""Tolerance in seconds for early jobs."""
PHASE_S: Final = 0.25
"""
Tolerance in seconds for the phase of the job with `every=1`.
"""


def scenarios(trips: int, seed: int) -> dict[str, list[Step]]:
    """
    Return the clock steps of each scenario, by its name.
    """
    dice = random.Random(seed)
    at, wander = 3.0, []
    for _ in range(trips):
        wander.append((at, dice.choice((0.0, 0.0, dice.uniform(-1, 1) * 12 * HOUR, dice.uniform(-5, 5)))))
        at += dice.choice((0.05, 0.3, 1.0, 3.0, dice.uniform(0.0, 5.0)))
    return {
        "back": [(4.3, -HOUR)],
        "forth": [(4.3, HOUR)],
        "back and right": [(4.3, -HOUR), (9.3, 0.0)],
        "forth and right": [(4.3, HOUR), (9.3, 0.0)],
        "a glimpse": [(4.3, -HOUR), (4.35, 0.0)],
        "trips": wander,
    }


def build_clock(folder: Path) -> Path:
    """
    Compile the interposed clock into *folder*, and return the library to preload.
    """
    library, source = folder / "clock.so", Path(__file__).with_name("interposed_clock.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


@contextmanager
def interposed(folder: Path) -> Iterator[tuple[dict[str, str], Any]]:
    """
    Provide the environment of a process whose clock can be set, and a function that sets the error of this clock.
    """
    library, shared = build_clock(folder), folder / "offset"
    shared.write_bytes(bytes(8))
    with shared.open("r+b") as file, mmap.mmap(file.fileno(), 8) as offset:

        def set_by(seconds: float) -> None:
            offset[:] = struct.pack("<q", int(seconds * 1e9))

        yield {**os.environ, "LD_PRELOAD": str(library), "INTERPOSED_OFFSET": str(shared)}, set_by


def run(steps: list[Step], folder: Path, seed: int) -> dict[str, Any]:
    """
    Run one scheduler while the clock makes *steps*, and return its record.
    """
    length = steps[-1][0] + SETTLED_S
    with interposed(folder) as (environment, set_by):
        command = [sys.executable, __file__, "--live", str(length), "--seed", str(seed), "--folder", str(folder)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            began = float(process.stdout.readline())
            taken: list[Step] = [(0.0, 0.0)]
            for at, off in steps:
                time.sleep(max(0.0, began + at - time.monotonic()))
                set_by(off)
                taken.append((time.monotonic() - began, off))
            out = process.stdout.read()
        assert process.returncode == 0, process.returncode
    return {"steps": taken, "length": length, **json.loads(out)}


# ---- the process whose clock is set ----------------------------------------------------------------------------------


def live(length: float, folder: Path, seed: int) -> None:
    """
    Run the scheduler for *length* seconds, and print its runs and the requests.
    """
    from tickwheel.scheduler import Scheduler  # noqa: PLC0415 - only here: the other process only judges

    dice = random.Random(seed)
    runs: list[tuple[str, float]] = []
    asked: list[tuple[str, float, float]] = []
    with Scheduler(f"sqlite:///{folder / 'jobs.db'}") as scheduler:
        began = time.monotonic()

        @scheduler.handler("note")
        def note(payload: str) -> None:
            runs.append((payload, time.monotonic() - began))

        scheduler.set("far", delay=86_400 * 30, payload="far", handler="note")
        scheduler.set("every", every=1, payload="every", handler="note")
        scheduler.set("cron", cron="* * * * * *", payload="cron", handler="note")
        began = time.monotonic()
        print(began, flush=True)
        number, stalled = 0, 0.0
        while (now := time.monotonic() - began) < length:
            number += 1
            wait = dice.uniform(0.0, 4.0)
            key = f"delay-{number}"
            scheduler.set(key, delay=wait, payload=key, handler="note")
            asked.append((key, now, wait))
            key, wall = f"at-{number}", time.time() + wait
            scheduler.set(key, at=wall, payload=key, handler="note")
            asked.append((key, time.monotonic() - began, wall - began_wall(began)))
            time.sleep(PAUSE_S)
            stalled = max(stalled, time.monotonic() - began - now - PAUSE_S)
        time.sleep(4.0 + 2 * LATE_S)
    print(json.dumps({"runs": runs, "asked": asked, "stalled": stalled}))


def began_wall(began: float, known: list[float] = []) -> float:  # noqa: B006 - it is meant to be kept
    """
    Return the time of day at the beginning *began* of a run, as computed by the first call.
    """
    if not known:
        known.append(time.time() - (time.monotonic() - began))
    return known[0]


# ---- the judge -------------------------------------------------------------------------------------------------------


def judge(told: dict[str, Any]) -> list[str]:
    """
    Return the faults in a scheduler's record, in words.

    Times in the record are counted from its beginning.
    """
    steps, length = [tuple(step) for step in told["steps"]], told["length"]
    runs: dict[str, list[float]] = {}
    for key, at in told["runs"]:
        runs.setdefault(key, []).append(at)
    wrong = []
    for key in ("every", "cron"):
        times = [0.0, *(at for at in runs.get(key, []) if at <= length), length]
        gap, at = max((b - a, a) for a, b in pairwise(times))
        if gap > SILENT_S + PHASE_S:  # two seconds if one is left out; a busy machine shifts both ends
            wrong.append(f"{key} was silent for {gap:.1f} s from {at:.1f} s on")
    first = runs["every"][0] if "every" in runs else 0.0
    shifts = [abs((at - first + 0.5) % 1.0 - 0.5) for at in runs.get("every", [])]
    if off := [shift for shift in shifts if shift > PHASE_S]:
        wrong.append(f"every ran out of phase {len(off)} times, by up to {max(off):.2f} s")
    for key, at, value in told["asked"]:
        found = runs.get(key, [])
        if key.startswith("delay"):
            wrong += _judge_delay(key, at + value, found)
        else:
            wrong += _judge_at(key, (at, value, length + 4.0), found, steps)
    return wrong


def _judge_delay(key: str, due: float, found: list[float]) -> list[str]:
    if len(found) != 1:
        return [f"{key}, due at {due:.2f} s, ran {len(found)} times"]
    if not -EARLY_S <= found[0] - due <= LATE_S:
        return [f"{key} ran {found[0] - due:+.3f} s from its instant at {due:.2f} s"]
    return []


def _judge_at(key: str, asked: tuple[float, float, float], found: list[float], steps: list[Step]) -> list[str]:
    """
    Return the faults of a job with `at=`.

    *asked* has the time of the request, the wall-clock time at which the job is due, and the end of the observation.
    """
    at, wall, watched = asked
    due = _first_shown(wall, at, steps)
    if due is None or due > watched:  # the wall clock never showed the job's time in this run
        soon = [at for at in found if not _shown_around(wall, at, steps)]
        return [f"{key} ran {len(soon)} times, and its instant never came"] if soon else []
    if not found and _fleeting(due, wall, steps, STALLED_S):  # the job may run when the clock shows its time again
        return []
    if len(found) != 1:
        return [f"{key}, due at {due:.2f} s, ran {len(found)} times"]
    # A step is detected late, so a job that is due within a second of a step may run by the old or the new clock.
    if not _shown_around(wall, found[0], steps):
        return [f"{key} ran early, at {found[0]:.2f} s"]
    if found[0] - due > LATE_S and not _fleeting(due, wall, steps, LATE_S):
        return [f"{key} ran {found[0] - due:.2f} s late"]
    return []


def _first_shown(wall: float, asked: float, steps: list[Step]) -> float | None:
    """
    Return the first time, not before *asked*, at which the wall clock shows *wall* or later; None if it never does.
    """
    for index, (start, off) in enumerate(steps):
        end = steps[index + 1][0] if index + 1 < len(steps) else float("inf")
        shown = max(start, asked, wall - off)
        if shown < end:
            return shown
    return None


def _shown_around(wall: float, at: float, steps: list[Step]) -> bool:
    return any(at + off >= wall - EARLY_S for off in _offsets_around(at, steps))


def _offsets_around(at: float, steps: list[Step]) -> list[float]:
    found = [off for start, off in steps if at - LATE_S <= start <= at]
    return [*found, [off for start, off in steps if start <= max(at - LATE_S, 0.0)][-1]]


def _fleeting(due: float, wall: float, steps: list[Step], within_s: float) -> bool:
    return any(due < start <= due + within_s and start + off < wall for start, off in steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trips", type=int, default=12, help="how often the clock is set at random")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--live", type=float, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    if options.live is not None:
        live(options.live, options.folder, seed)
        return 0
    count = wrong = jobs = 0
    for name, steps in scenarios(options.trips, seed).items():
        if options.only not in name:
            continue
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory() as folder:
                told = run(steps, Path(folder), seed)
            found = judge(told)
            if not found or told["stalled"] < STALLED_S:
                break
            print(f"{name}: the machine stalled for {told['stalled']:.1f} s, so once more: {found[0]}", flush=True)
        count, wrong, jobs = count + 1, wrong + bool(found), jobs + len(told["asked"])
        for line in found[:8]:
            print(f"{name}: {line}", flush=True)
    print(f"scenarios {count}, jobs {jobs}, scenarios with a fault {wrong}, seed {seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
