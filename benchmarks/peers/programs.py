"""
Lists the programs of the peers, with the commands that build and start them.

Everything that is built or fetched goes into `target/peers`.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["PEERS", "Peer", "missing"]

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "target" / "peers"
BUILD_TIMEOUT_S = 1200
JVM = ("java", "-XX:+UseSerialGC", "-XX:-UseDynamicNumberOfCompilerThreads", "-Xmx4g")
"""
Command line of the JVM.

The JVM would choose this collector on one core anyway. The number of compiler threads is fixed, because the time of
threads that end would not be counted.
"""

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """
    A program that is built once for all peers that use it.

    Attributes:
        tools: Programs that have to be on the PATH.
        steps: The commands that build it.
        folder: The folder in which the commands run. For Go it is a copy in `target`, because Go writes its checksums
            there.
    """

    tools: Command
    steps: tuple[Command, ...] = ()
    folder: Path = HERE


@dataclass(frozen=True, slots=True)
class Peer:
    """
    A timer library of another language.

    Attributes:
        program: The program that has to be built for it.
        command: The command to start. The work and the number of timers are appended.
    """

    program: Program
    command: Command


def go(name: str, *, modfile: str) -> Program:
    """
    Return a Go program that has its own list of modules, so that a missing module affects only its own peer.
    """
    build = ("go", "build", "-mod=mod", f"-modfile={modfile}", "-tags", name, "-o", str(OUT / name), ".")
    return Program(("go",), (build,), OUT / "go")


def java(name: str) -> Program:
    """
    Return a Java program that has its own list of libraries.
    """
    out = OUT / name
    fetch = ("mvn", "-q", "-B", "-f", f"{name}.xml", "dependency:copy-dependencies", f"-DoutputDirectory={out}")
    sources = ("Bench.java", "Process.java", "Timers.java", f"{name.capitalize()}.java")
    compiled = ("javac", "-cp", f"{out}/*", "-d", str(out), *sources)
    return Program(("java", "javac", "mvn"), (fetch, compiled), HERE / "java")


def on_java(name: str, tick_ms: int) -> Peer:
    """
    Return the peer of a Java class with ticks of *tick_ms*.
    """
    place = OUT / name
    return Peer(java(name), (*JVM, "-cp", f"{place}:{place}/*", "Bench", name.capitalize(), str(tick_ms)))


CARGO = ("cargo", "build", "--release", "--locked", "--quiet", "--target-dir", str(OUT / "rust"))
RUST = Program(("cargo",), (CARGO,), HERE / "rust")
TOKIO = str(OUT / "rust" / "release" / "peers")
GO_ZERO = go("gozero", modfile="gozero.mod")
PEERS: dict[str, Peer] = {
    "Go AfterFunc": Peer(go("afterfunc", modfile="go.mod"), (str(OUT / "afterfunc"), "0")),
    "go-zero, ticks of 1 s": Peer(GO_ZERO, (str(OUT / "gozero"), "1000")),
    "go-zero, ticks of 1 ms": Peer(GO_ZERO, (str(OUT / "gozero"), "1")),
    "RussellLuo timingwheel": Peer(go("russellluo", modfile="russellluo.mod"), (str(OUT / "russellluo"), "1")),
    "tokio Sleep": Peer(RUST, (TOKIO, "sleep")),
    "tokio DelayQueue": Peer(RUST, (TOKIO, "queue")),
    "Netty, ticks of 100 ms": on_java("netty", 100),
    "Netty, ticks of 1 ms": on_java("netty", 1),
    "Kafka": on_java("kafka", 1),
    "Node setTimeout": Peer(Program(("node",)), ("node", "--expose-gc", str(HERE / "node" / "timers.mjs"))),
}


@cache
def missing(program: Program) -> str:
    """
    Build a program, and return the reason why it cannot be built, or "" on success.
    """
    for tool in program.tools:
        if not shutil.which(tool):
            return f"{tool} is not installed"
    OUT.mkdir(parents=True, exist_ok=True)
    if program.folder == OUT / "go":
        shutil.copytree(HERE / "go", program.folder, dirs_exist_ok=True)
    for step in program.steps:
        answer = subprocess.run(
            step, cwd=program.folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
        if answer.returncode:
            return f"{step[0]} failed: {cause(answer.stderr + answer.stdout)}"
    return ""


def cause(output: str) -> str:
    """
    Return the line in the output of a failed command that gives the reason.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "without a word")
