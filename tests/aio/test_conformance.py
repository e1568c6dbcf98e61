"""
CPython's own tests, those that say most in the least time; `make conformance` runs the rest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "conformance"


@pytest.mark.slow
@pytest.mark.usefixtures("suites")
@pytest.mark.parametrize("script", ["timeouts.py", "mixins.py"])
def test_cpython_s_own(script):
    """
    CPython's tests of timeouts pass on ours, and its mixins for loops on our loop.
    """
    command = [sys.executable, str(SCRIPTS / script)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "OK" in answer.stderr
