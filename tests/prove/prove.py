"""
All proofs of the durable scheduler, one after the other, and one table.

    python tests/prove/prove.py [--seeds 200] [--cuts 300] [--jobs 10000] [--calls 4] [--only NAME ...]

Each proof is a program of its own, whose last line says what it counted. The exit code is 0 if all of them held; what
did not is printed with the command, seed and all, that runs it again.
"""

from __future__ import annotations

import argparse
import os
import re
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


@dataclass(frozen=True, slots=True)
class Proof:
    """
    One line of the table.

    Attributes:
        name: What is proven.
        command: The program and its arguments.
        database: What its PostgreSQL database is called; "redis" for that server; "" for neither.
        expects: The exit code; 1 where the program has to find something.
    """

    name: str
    command: tuple[str, ...]
    database: str = ""
    expects: int = 0


def proofs(options: argparse.Namespace) -> Iterator[Proof]:
    """
    Yield the proofs, with the sizes that were asked for.
    """
    seeds, cuts, jobs = str(options.seeds), str(options.cuts), str(options.jobs)
    seconds = str(max(8.0, options.jobs / 150))
    simulation = ("-m", "simulation")
    kill = (str(CRASH / "kill9.py"), "--jobs", jobs, "--seconds", seconds, "--named", "--every", "1", "3")
    power = (str(HERE / "power_cut.py"), "--cuts")
    zombie = (str(HERE / "sigstop.py"), "--rounds", str(max(1, options.seeds // 40)))
    early = (str(HERE / "early.py"), "--jobs", str(10 * options.jobs))
    clock = (str(HERE / "clock_steps.py"), "--jobs", str(min(400, options.jobs)))
    yield Proof("simulated days", (*simulation, "--seeds", seeds))
    fleet = ("--first", "6", "--seeds", "1", "--hours", str(options.seeds * 24 / 200), "--nodes", "100")
    yield Proof("a simulated day of a hundred nodes", (*simulation, *fleet))
    yield Proof("model of the protocol", (str(HERE / "protocol_model.py"),))
    yield Proof("store calls failed once", (str(HERE / "each_call.py"), "--every", str(options.calls)))
    yield Proof("kill -9, SQLite", kill)
    yield Proof("kill -9, PostgreSQL", kill, "kills")
    yield Proof("power cuts", (*power, cuts))
    yield Proof("power cuts, NORMAL must lose", (*power, "60", "--synchronous", "normal"), expects=1)
    yield Proof("power cuts, OFF must lose", (*power, "60", "--synchronous", "off"), expects=1)
    yield Proof("SIGSTOP past the lease, PostgreSQL", zombie, "zombies")
    yield Proof("SIGSTOP past the lease, Redis", zombie, "redis")
    rolling = (str(HERE / "rolling.py"), "--rounds", str(max(2, options.seeds // 40)))
    yield Proof("rolling deployments, PostgreSQL", rolling, "deployments")
    yield Proof("rolling deployments, Redis", rolling, "redis")
    yield Proof("none early, SQLite", early)
    yield Proof("none early, PostgreSQL", early, "instants")
    yield Proof("none early, Redis", early, "redis")
    yield Proof("clock trips, SQLite", (str(HERE / "clock_trips.py"),))
    server_clock = str(HERE / "server_clock.py")
    yield Proof("clock of the server, PostgreSQL", (server_clock, "--kind", "postgres"))
    yield Proof("clock of the server, Redis", (server_clock, "--kind", "redis"))
    yield Proof("failover, synchronous standby", (str(HERE / "failover.py"), "--mode", "sync"))
    yield Proof("failover, lagging standby", (str(HERE / "failover.py"), "--mode", "async"))
    yield Proof("failover, Redis Cluster", (str(HERE / "failover.py"), "--mode", "cluster"))
    yield Proof("failover, Redis Cluster, three partitions", (str(HERE / "failover.py"), "--mode", "partitions"))
    yield Proof("failover, Redis Sentinel", (str(HERE / "failover.py"), "--mode", "sentinels"))
    yield Proof("clock steps, SQLite", clock)
    yield Proof("clock steps, PostgreSQL", clock, "clocks")
    yield Proof("cron lines and zones", (str(HERE / "crons.py"),))


def run(proof: Proof, url: str) -> tuple[bool, str, float]:
    """
    Run *proof*, print what it says on its way, and return whether it held, its last line, and the seconds it took.
    """
    command = [sys.executable, *proof.command, *(["--store", url] if url else [])]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"}
    started = time.monotonic()
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
    took = time.monotonic() - started
    held = code == proof.expects
    last = last or f"it printed nothing, and ended with {code}"
    if not held:
        print("\n".join([*said[-20:], f"again: {' '.join(map(str, again(command, last)))}"]), flush=True)
    return held, last, took


def again(command: list[str], line: str) -> list[str]:
    """
    Return *command* with the seed that is in *line*.
    """
    seed = re.search(r"seed (\d+)", line)
    return [
        f"PYTHONPATH={HERE}",
        "python",
        *command[1:],
        *(["--seed", seed[1]] if seed and "--seed" not in command else []),
    ]


def main() -> int:
    """
    Run all proofs and print the table.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="simulated days (default: %(default)s)")
    parser.add_argument("--cuts", type=int, default=300, help="power cuts (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs under kill -9 (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=4, help="one store call in so many fails (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="*", default=None, metavar="WORD", help="only proofs whose name has one of these"
    )
    options = parser.parse_args()
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
            rows.append((proof.name, "holds" if held else "BROKEN", f"{took:.0f} s", line))
            print(f"prove: {' '.join(rows[-1][1:])}", flush=True)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]))
    return 1 if any(row[1] != "holds" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
