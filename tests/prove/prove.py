"""
Runs all proofs of the durable scheduler one after another, and prints one table.

    python tests/prove/prove.py [--short] [--seeds 200] [--cuts 300] [--kills 100] [--jobs 10000] [--only NAME ...]

Each proof is a separate program, whose last line has its counts. The exit code is 0 if no proof failed. For a failed
proof, the command that repeats it is printed, with its seed. In the short form, each proof does less work, and the
simulations begin with a random seed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from servers import postgres, redis_url

HERE = Path(__file__).parent
CRASH = HERE.parent / "crash"
SIZES = {
    "seeds": (200, 12, "simulated days"),
    "hours": (24, 6, "hours of such a day"),
    "cuts": (300, 40, "power cuts"),
    "jobs": (10_000, 500, "jobs under kill -9"),
    "kills": (100, 5, "kills -9 in the middle of batches"),
    "calls": (4, 107, "one store call in so many fails"),
    "rounds": (5, 1, "rounds of SIGSTOP and of deployments"),
    "seconds": (12, 6, "seconds of load before a failover, or after a step of growth"),
    "trips": (12, 2, "trips of the clock"),
    "chaos": (30, 6, "seconds of faults, with a store 150 ms away"),
    "quiet": (60, 12, "seconds of statistics, dumb peers, lacking equipment, rates of clocks and full receivers"),
    "firings": (1000, 100, "firings of each cron line"),
}
"""For each option, its value in the long form, its value in the short form, and its meaning."""
QUIET = (
    ("statistics", "statistics", ("PostgreSQL",)),
    ("peer", "dumb peer", ("PostgreSQL", "Redis")),
    ("equipment", "equipment", ("PostgreSQL", "Redis")),
    ("rates", "rate of clocks", ("PostgreSQL", "Redis")),
    ("receiver", "full receiver", ("SQLite", "PostgreSQL", "Redis")),
)
"""Rows of the table for `quiet.py`: the condition, the name of the row, and the stores on which the proof runs."""
DAYS = 10**6
"""In the short form, the simulations begin with a random seed below this number."""


@dataclass(frozen=True, slots=True)
class Proof:
    """
    One row of the table.

    Attributes:
        name: The property to prove.
        command: The program and its arguments.
        database: Name of its PostgreSQL database; "redis" for a Redis; "" if it needs no server.
        expects: The expected exit code; 1 if the program has to find a fault.
    """

    name: str
    command: tuple[str, ...]
    database: str = ""
    expects: int = 0


def proofs(options: argparse.Namespace) -> Iterator[Proof]:
    """
    Yield the proofs, with the requested sizes.
    """
    seeds = str(options.seeds)
    rounds = ("--rounds", str(options.rounds))
    first = ("--first", str(options.first))
    simulation = ("-m", "simulation")
    zombie = (str(HERE / "sigstop.py"), *rounds)
    early = (str(HERE / "early.py"), "--jobs", str(10 * options.jobs))
    clock = (str(HERE / "clock_steps.py"), "--jobs", str(min(400, options.jobs)))
    failover = (str(HERE / "failover.py"), "--seconds", str(options.seconds), "--mode")
    yield Proof("simulated days", (*simulation, *first, "--seeds", seeds, "--hours", str(options.hours)))
    cluster = str(options.first // 2 * 2 + 6)
    fleet = ("--first", cluster, "--seeds", "1", "--hours", str(options.seeds * options.hours / 200), "--nodes", "100")
    yield Proof("a simulated day of a hundred nodes", (*simulation, *fleet))
    yield Proof("model of the protocol", (str(HERE / "protocol_model.py"),))
    yield Proof("store calls failed once", (str(HERE / "each_call.py"), *first, "--every", str(options.calls)))
    yield from crashes(options)
    yield Proof("SIGSTOP past the lease, PostgreSQL", zombie, "zombies")
    yield Proof("SIGSTOP past the lease, Redis", zombie, "redis")
    rolling = (str(HERE / "rolling.py"), *rounds)
    yield Proof("rolling deployments, PostgreSQL", rolling, "deployments")
    yield Proof("rolling deployments, Redis", rolling, "redis")
    yield Proof("none early, SQLite", early)
    yield Proof("none early, PostgreSQL", early, "instants")
    yield Proof("none early, Redis", early, "redis")
    yield Proof("clock trips, SQLite", (str(HERE / "clock_trips.py"), "--trips", str(options.trips)))
    server_clock = (str(HERE / "server_clock.py"), "--rounds", str(min(2, options.rounds)), "--kind")
    yield Proof("clock of the server, PostgreSQL", (*server_clock, "postgres"))
    yield Proof("clock of the server, Redis", (*server_clock, "redis"))
    yield Proof("failover, synchronous standby", (*failover, "sync"))
    yield Proof("failover, lagging standby", (*failover, "async"))
    yield Proof("failover, Redis Cluster", (*failover, "cluster"))
    yield Proof("failover, Redis Cluster, three partitions", (*failover, "partitions"))
    yield Proof("failover, Redis Sentinel", (*failover, "sentinels"))
    yield Proof("growth, from a file to a cluster", (str(HERE / "growth.py"), "--seconds", str(options.seconds)))
    yield Proof("clock steps, SQLite", clock)
    yield Proof("clock steps, PostgreSQL", clock, "clocks")
    for word, name, stores in QUIET:
        command = (str(HERE / "quiet.py"), word, "--seconds", str(options.quiet))
        for store in stores:
            database = {"PostgreSQL": f"quiet_{word}", "Redis": "redis"}.get(store, "")
            yield Proof(f"{name}, {store}", command, database)
    chaos = (str(HERE / "chaos.py"), "--seconds", str(options.chaos), "--kind")
    for name, kind in (("SQLite", "sqlite"), ("PostgreSQL", "postgres"), ("Redis", "redis")):
        yield Proof(f"chaos, {name}", (*chaos, kind))
    yield Proof("cron lines and zones", (str(HERE / "crons.py"), "--firings", str(options.firings)))


def crashes(options: argparse.Namespace) -> Iterator[Proof]:
    """
    Yield the proofs that kill processes and cut the power.
    """
    jobs, seconds = str(options.jobs), str(max(8.0, options.jobs / 150))
    kill = (str(CRASH / "kill9.py"), "--jobs", jobs, "--seconds", seconds, "--named", "--every", "1", "3")
    batches = (str(CRASH / "kill9_batches.py"), "--kills", str(options.kills))
    yield Proof("kill -9, SQLite", kill)
    yield Proof("kill -9, PostgreSQL", kill, "kills")
    yield Proof("kill -9 in batches, SQLite", batches)
    yield Proof("kill -9 in batches, PostgreSQL", batches, "kills_in_batches")
    few = str(min(60, options.cuts))
    for name, program in (("power cuts", "power_cut.py"), ("power cuts in batches", "power_cut_batches.py")):
        power = (str(HERE / program), "--cuts")
        yield Proof(name, (*power, str(options.cuts)))
        yield Proof(f"{name}, NORMAL must lose", (*power, few, "--synchronous", "normal"), expects=1)
        yield Proof(f"{name}, OFF must lose", (*power, few, "--synchronous", "off"), expects=1)


def run(proof: Proof, url: str) -> tuple[bool, str, str]:
    command = [sys.executable, *proof.command, *(["--store", url] if url else [])]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"}
    started, used_s = time.monotonic(), children_cpu_s()
    last = ""
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
    ):
        for line in process.stdout or ():
            if last:
                print(last, flush=True)
            last = line.rstrip()
        code = process.wait()
        errors.seek(0)
        said = errors.read().strip().splitlines()
    took = f"{time.monotonic() - started:.0f} s, {children_cpu_s() - used_s:.0f} of CPU"
    held = code == proof.expects
    last = last or f"it printed nothing, and ended with {code}"
    if not held:
        print("\n".join([*said[-20:], f"again: {' '.join(map(str, again(command, last)))}"]), flush=True)
    return held, last, took


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def again(command: list[str], line: str) -> list[str]:
    """
    Return *command* with the seed that the output *line* names.
    """
    seed = re.search(r"seed (\d+)", line)
    return [
        f"PYTHONPATH={HERE}",
        "python",
        *command[1:],
        *(["--seed", seed[1]] if seed and "--seed" not in command else []),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="run each proof in its short form")
    parser.add_argument("--first", type=int, default=None, help="the seed of the first day (default: 0; if short, any)")
    for name, (long, short, what) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=None, help=f"{what} (default: {long}, short: {short})")
    parser.add_argument(
        "--only", nargs="*", default=None, metavar="WORD", help="only proofs whose name has one of these"
    )
    options = parser.parse_args()
    for name, sizes in SIZES.items():
        if getattr(options, name) is None:
            setattr(options, name, sizes[options.short])
    if options.first is None:
        options.first = random.randrange(DAYS) if options.short else 0
    print(f"prove: days from seed {options.first} on", flush=True)
    chosen = [
        each for each in proofs(options) if options.only is None or any(word in each.name for word in options.only)
    ]
    rows: list[tuple[str, str, str, str]] = []
    with ExitStack() as servers:
        server = (
            servers.enter_context(postgres()) if any(each.database not in ("", "redis") for each in chosen) else None
        )
        redis = servers.enter_context(redis_url()) if any(each.database == "redis" for each in chosen) else ""
        for proof in chosen:
            url = redis if proof.database == "redis" else ""
            if server is not None and proof.database not in ("", "redis"):
                server.execute(f"CREATE DATABASE {proof.database}")
                url = f"{server.url(proof.database)}&lease_s=1"
            print(f"prove: {proof.name}", flush=True)
            held, line, took = run(proof, url)
            rows.append((proof.name, "holds" if held else "BROKEN", took, line))
            print(f"prove: {' '.join(rows[-1][1:])}", flush=True)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return 1 if any(row[1] != "holds" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
