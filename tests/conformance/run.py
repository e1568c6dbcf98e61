"""
Other people's tests on asyncio's loop and on ours, side by side: `python tests/conformance/run.py [SUITE ...]`.

Each suite runs twice, in a process of its own; what fails on either loop is named, and any difference is an error.
A suite that is not installed is said to be missing.
"""

# ruff: noqa: T201 - it prints a table

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

SUITES = {
    "cpython": ("test.test_asyncio", ["-m", "unittest", "-v", "test.test_asyncio"]),
    "tornado": ("tornado.test", ["-m", "tornado.test", "--verbose"]),
}
SWAP = Path(__file__).with_name("swap")
RAN = re.compile(r"^Ran (\d+) tests? in", re.MULTILINE)
FAILED = re.compile(r"^(?:ERROR|FAIL|UNEXPECTED SUCCESS): (.+)$", re.MULTILINE)
TIMEOUT_S = 900


def is_here(module: str) -> bool:
    """
    Return whether a suite is installed.
    """
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def outcome(arguments: list[str], *, is_swapped: bool) -> tuple[int, set[str]]:
    """
    Return how many tests ran, and which failed.
    """
    path = [str(SWAP)] if is_swapped else []
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*path, os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    }
    command = [sys.executable, *arguments]
    answer = subprocess.run(
        command, env=environment, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
    )
    text = answer.stdout + answer.stderr
    ran = RAN.search(text)
    if ran is None:
        sys.exit(f"the suite did not come to its end:\n{text[-3000:]}")
    return int(ran[1]), set(FAILED.findall(text))


def main(wanted: list[str]) -> int:
    """
    Run suites and print the table; return how many differ.
    """
    different = 0
    print(f"{'suite':10} {'loop':10} {'tests':>6} {'failed':>6}")
    for name in wanted or SUITES:
        module, arguments = SUITES[name]
        if not is_here(module):
            print(f"{name:10} missing: {module} is not installed")
            continue
        outcomes = {}
        for loop in ("asyncio", "tickwheel"):
            outcomes[loop] = ran, failed = outcome(arguments, is_swapped=loop == "tickwheel")
            print(f"{name:10} {loop:10} {ran:6} {len(failed):6}", flush=True)
        if outcomes["asyncio"] != outcomes["tickwheel"]:
            different += 1
            for loop in outcomes:
                (other,) = set(outcomes) - {loop}
                for test in sorted(outcomes[loop][1] - outcomes[other][1]):
                    print(f"  only on {loop}: {test}")
    return different


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
