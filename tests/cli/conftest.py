"""
The command line as a user runs it, in a new folder.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tickwheel.cli import app

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Run:
    """
    Return a function that runs `tickwheel` in the test's folder, without a terminal and inside the test's process.
    """
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capsys.readouterr()
        code = app.run(arguments)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, out, err)

    return run_command


@pytest.fixture
def run_process(tmp_path) -> Run:
    """
    Return a function that runs `tickwheel` in another process.
    """

    def run_command(*arguments: str | bytes) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tickwheel.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run_command


INTERRUPTIBLE = """
import signal
from tickwheel.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
main()
"""


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """
    Return a function that starts `tickwheel` in a process that Ctrl-C can end.
    """
    started = []

    def start_command(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", INTERRUPTIBLE, *arguments]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        started.append(
            subprocess.Popen(
                command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        )
        return started[-1]

    yield start_command
    for process in started:
        process.kill()
        process.communicate()
