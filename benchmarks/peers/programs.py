"""
The peers' programs: what each is built from and with, and how it is started.

All that is built, and all that a build fetches, goes into `target/peers`.
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
"""On one core the JVM chooses this collector; a compiler's thread that ends would take its CPU time out of the sum."""

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """
    What is built once for all of its peers.

    Attributes:
        tools: What has to be on the PATH.
        steps: The commands that build it.
        folder: Where they run: a folder of this package, copied if Go would write its sums there.
    """

    tools: Command
    steps: tuple[Command, ...] = ()
    folder: Path = HERE


@dataclass(frozen=True, slots=True)
class Peer:
    """
    One kind of timer.

    Attributes:
        program: What has to be built for it.
        command: What is started, with the work and the number of timers behind it.
    """

    program: Program
    command: Command


def go(name: str, *, modfile: str) -> Program:
    """
    Return the program of a file in Go, with a list of modules of its own, so that one lacking stops no other.
    """
    build = ("go", "build", "-mod=mod", f"-modfile={modfile}", "-tags", name, "-o", str(OUT / name), ".")
    return Program(("go",), (build,), OUT / "go")


def java(name: str) -> Program:
    """
    Return the program of a class in Java, with a list of libraries of its own.
    """
    out = OUT / name
    fetch = ("mvn", "-q", "-B", "-f", f"{name}.xml", "dependency:copy-dependencies", f"-DoutputDirectory={out}")
    sources = ("Bench.java", "Process.java", "Timers.java", f"{name.capitalize()}.java")
    compiled = ("javac", "-cp", f"{out}/*", "-d", str(out), *sources)
    return Program(("java", "javac", "mvn"), (fetch, compiled), HERE / "java")


def on_java(name: str, tick_ms: int) -> Peer:
    """
    Return the peer of a class in Java, at a length of its ticks.
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
    Build a program and return why it cannot be run; "" if it can.
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
    Return the line of a failed command's output that says why.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "without a word")
