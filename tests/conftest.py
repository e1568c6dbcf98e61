"""
The real traces, and what others say comes of them, where they are.
"""

import importlib.util
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
SERVERS = Path(__file__).parents[1] / "scripts" / "servers"
# What other systems lack, so that the code that does without it is tested on Linux: `pytest --as macos`.
LACKING = {
    "macos": {os: ("eventfd", "fdatasync", "pipe2", "posix_fadvise", "posix_fallocate"), time: ("CLOCK_BOOTTIME",)},
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """
    Add `--as`.
    """
    parser.addoption("--as", dest="system", choices=sorted(LACKING), help="run without what that system lacks")


def pytest_configure(config: pytest.Config) -> None:
    """
    Take away what the system of `--as` lacks, before tickwheel is imported.
    """
    for module, names in LACKING.get(config.getoption("system"), {}).items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)


@pytest.fixture(scope="session")
def traces() -> Path:
    """
    Return the directory of the real traces.
    """
    path = SHARED / "traces"
    if not path.is_dir():
        pytest.skip("../shared/traces is not here")
    return path


@pytest.fixture(scope="session")
def oracle() -> Callable[[Path], dict[str, int]]:
    """
    Return the oracle: a heap and a dict, written by others.
    """
    path = SHARED / "suites" / "replay_oracle.py"
    if not path.is_file():
        pytest.skip("../shared/suites/replay_oracle.py is not here")
    spec = importlib.util.spec_from_file_location("replay_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    replay: Callable[[Path], dict[str, int]] = module.replay
    return replay


def pytest_terminal_summary(terminalreporter) -> None:
    """
    Say in one line what is missing on this machine, and the command that installs it.
    """
    skipped = len(terminalreporter.stats.get("skipped", ()))
    if skipped:
        answer = subprocess.run([SERVERS, "--missing"], capture_output=True, text=True, check=False)
        if missing := answer.stdout.split():
            terminalreporter.write_line(
                f"{skipped} tests were skipped; missing here: {', '.join(missing)}; `make servers` installs them"
            )
