"""
The proof of growth: runs the commands of docs/scale.md, from one file to a Redis Cluster, under continuous calls.

    python tests/prove/growth.py [--seconds 12]

The commands are in the section "The steps, command by command" of the page. This program runs the blocks of commands in
that section in one shell, one after another, with real servers. Meanwhile another process, the caller, sets, replaces,
moves and cancels jobs, also for some seconds after each step. A comment `# callers use URL` in the page makes the
caller switch to this URL. No acknowledged job may be lost, start early, or start after the answer to its cancel,
replacement or move. The longest pause of the caller is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from caller import Caller, Counts, Start, judge
from servers import postgres
from sigstop import append, is_empty, until

from processes import find, given_to_nobody  # isort: skip - in the path that `servers` made

from tickwheel.scheduler import Firing, Scheduler

__all__ = ["Shell", "Step", "register", "steps_of"]

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parents[1] / "docs" / "scale.md"
SECTION: Final = re.compile(r"^## The steps, command by command\n(.*?)^## ", re.MULTILINE | re.DOTALL)
STEP: Final = re.compile(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
BLOCK: Final = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALLERS: Final = re.compile(r"^# callers use (\S+)$", re.MULTILINE)
PATIENCE_S: Final = 900.0
"""Maximum number of seconds for one block of commands."""
SERVERS: Final = 6
NODES: Final = 3
# They refuse to run as root, or the database server must own their files.
OWN_USER: Final = ("pg_basebackup", "pg_ctl")
"""Database programs that are run as another user than root."""
STARTED: Final = "started"
"""Name of the file to which the handler writes each start."""


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step of docs/scale.md.

    Attributes:
        name: The heading of the step.
        parts: The parts of the step's commands, each with the caller's next URL, or with "" if the URL stays the same.
    """

    name: str
    parts: tuple[tuple[str, str], ...]


def steps_of(page: str) -> list[Step]:
    """
    Return the steps in the text of *page*.
    """
    section = SECTION.search(page)
    assert section, "the page has no section of steps"
    found = []
    for name, text in STEP.findall(section[1]):
        *pairs, last = CALLERS.split("".join(BLOCK.findall(text)))
        parts = [*zip(pairs[::2], pairs[1::2], strict=True), (last, "")]
        found.append(Step(name, tuple((code.strip(), url) for code, url in parts if code.strip() or url)))
    return found


def register(scheduler: Scheduler) -> None:
    """
    Register the handler of the nodes, which records each start.
    """

    @scheduler.handler("work")
    def work(serial: int, firing: Firing) -> None:
        append(Path(STARTED), f"{serial} {time.time()} {firing.job.due_at / 1000}")


class Shell:
    """
    A bash process that keeps variables and background processes from one command to the next.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._log = (folder / "log").open("ab")
        reads, writes = os.pipe()
        self._answers = os.fdopen(reads)
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec 3>&{writes} {writes}>&-; exec bash"],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            cwd=folder,
            env=environment,
            pass_fds=(writes,),
            start_new_session=True,  # a session of its own, so that the shell can be killed with all its processes
        )
        os.close(writes)
        self.run("set -E; trap 'failed=$BASH_COMMAND' ERR")

    def run(self, code: str) -> None:
        failed = self._ask(f'failed=\n{{\n{code}\n}} </dev/null 3>&-\necho "$failed" >&3')
        if failed:
            message = f"{failed}: it failed\n{self._said()}"
            raise RuntimeError(message)

    def value(self, word: str) -> str:
        return self._ask(f"echo {word} >&3")

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdin.close()
        self._answers.close()
        self._log.close()

    def _ask(self, code: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{code}\n".encode())
        self._process.stdin.flush()
        is_answered = select.select([self._answers], [], [], PATIENCE_S)[0]
        answer = self._answers.readline() if is_answered else ""
        if not answer.endswith("\n"):
            message = f"{code}\nhas no end\n{self._said()}"
            raise RuntimeError(message)
        return answer[:-1]

    def _said(self) -> str:
        """
        Return the last lines that the shell's programs have written to the log.
        """
        return (self._folder / "log").read_text(errors="replace")[-4000:]


@contextmanager
def prepared() -> Iterator[tuple[Path, Shell]]:
    """
    Provide a folder with a shell and a PostgreSQL. The shell has the variables that the commands of docs/scale.md use.
    """
    with ExitStack() as stack:
        primary = stack.enter_context(postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "work.py").write_text("from growth import register\n")
        (folder / STARTED).touch()
        server = folder / "standby"
        server.mkdir()
        given_to_nobody(server)
        folder.chmod(0o755)
        places = [str(Path(sys.executable).parent), str(Path(find("pg_ctl")).parent), os.environ["PATH"]]
        ports = free_ports(SERVERS + NODES)
        # the caller, which runs in this process, connects with these variables
        os.environ |= {"PGUSER": "tick", "PGHOST": str(primary.folder)}
        shell = Shell(
            folder,
            {
                **os.environ,
                "PATH": os.pathsep.join(places),
                "PYTHONPATH": str(HERE),
                "DB1": str(primary.folder),
                "DATA1": str(primary.folder / "data"),
                "DB2": str(server),
                "DATA2": str(server / "data"),
                "HTTP": " ".join(map(str, ports[SERVERS:])),
                "PORTS": " ".join(map(str, ports[:SERVERS])),
            },
        )
        stack.callback(_end_standby, server / "data")
        stack.callback(shell.end)
        if os.geteuid() == 0:
            for name in OWN_USER:
                shell.run(f'{name}() {{ setpriv --reuid nobody --regid nogroup --clear-groups {name} "$@"; }}')
        yield folder, shell


def free_ports(count: int) -> list[int]:
    """
    Return *count* free ports P of the loopback interface. For the cluster bus, the port P + 10,000 is free as well.
    """
    found: list[int] = []
    for port in random.sample(range(12_000, 22_000), 1_000):
        if len(found) < count and all(map(is_free, (port, port + 10_000))):
            found.append(port)
    return found


def is_free(port: int) -> bool:
    with socket.socket() as tried, suppress(OSError):
        tried.bind(("127.0.0.1", port))
        return True
    return False


def _end_standby(data: Path) -> None:
    with suppress(FileNotFoundError, ProcessLookupError):
        process = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(process, signal.SIGQUIT)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            os.kill(process, 0)
            time.sleep(0.02)  # the page started the process, so no signal reports its end


def prove(steps: list[Step], seconds: float, seed: int) -> dict[str, Counts]:
    """
    Run all *steps*, and let the caller work for *seconds* seconds after each step.

    Return the counts by step.
    """
    caller = Caller(seed)
    with prepared() as (folder, shell):
        try:
            url = ""
            for step in steps:
                caller.begin(step.name)
                print(f"growth: {step.name}", flush=True)
                for code, word in step.parts:
                    if code:
                        shell.run(code)
                    if word:
                        url = shell.value(word)
                        caller.use(url)
                time.sleep(seconds)  # the caller makes its calls during this time
            caller.stop()
            client = Scheduler(url)  # the scheduler is not started, so it fires nothing
            until(lambda: is_empty(client))
            client.stop()
        finally:
            with suppress(Exception):  # the first error is shown, and not a later one
                caller.stop()
        lines = (folder / STARTED).read_text().split("\n")
    starts = [Start(int(serial), float(at), float(due)) for serial, at, due in map(str.split, lines[:-1])]
    return judge([step.name for step in steps], caller, starts)


def table(found: dict[str, Counts]) -> str:
    """
    Return the results as rows of the table in docs/scale.md.
    """
    rows = ["| step | acknowledged | lost | overtaken | early | longest pause of calls | latest start |"]
    rows.append("|---|---|---|---|---|---|---|")
    rows += [
        f"| {name} | {each.acknowledged:,} | {each.lost} | {each.overtaken} | {each.early} | {each.pause_s:.1f} s "
        f"| {each.silence_s:.1f} s |"
        for name, each in found.items()
    ]
    return "\n".join(rows)


def main() -> int:
    """
    Read the command line, run the proof, and print the table and a summary line.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12.0, help="how long calls go on after each step")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all servers are stopped
    begun = time.monotonic()
    found = prove(steps_of(PAGE.read_text("utf-8")), options.seconds, seed)
    print(table(found))
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, {time.monotonic() - begun:.0f} s"
    )
    print(
        f"acknowledged {sum(each.acknowledged for each in found.values())}, "
        f"lost {sum(each.lost for each in found.values())}, "
        f"overtaken {sum(each.overtaken for each in found.values())}, "
        f"early {sum(each.early for each in found.values())}, "
        f"longest pause of calls {max(each.pause_s for each in found.values()):.1f} s, "
        f"latest start {max(each.silence_s for each in found.values()):.1f} s, seed {seed}"
    )
    return 0 if all(each.is_good for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
