"""
The command line as a user runs it, in a fresh folder.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import pytest

from tickwheel.cli import app

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Run:
    """
    Return what runs `tickwheel` with its arguments in the test's folder and without a terminal.

    It runs in the test's own process, which saves a second each time; a fault of ours raises through it.
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
    Return what runs `tickwheel` in a process of its own.
    """

    def run_command(*arguments: str | bytes) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tickwheel.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run_command
