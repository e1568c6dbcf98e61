"""
The command line as a user runs it: a process of its own in a fresh folder.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path) -> Run:
    """
    Return what runs `tickwheel` with its arguments in the test's folder, without a terminal.
    """

    def run_command(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(
            [sys.executable, "-m", "tickwheel.cli", *arguments],
            cwd=tmp_path,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    return run_command
