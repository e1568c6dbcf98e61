"""
A part of CPython's own tests on our loop, and the program that runs all suites of other projects (`make conformance`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "conformance"
MIXINS = [str(FOLDER / "mixins.py")]
TIMEOUTS = ["-m", "unittest", "test.test_asyncio.test_timeouts", "test.test_asyncio.test_waitfor"]
RACY = """
import asyncio, unittest
class Tests(unittest.TestCase):
    def test_of_stock_only(self):
        loop = asyncio.new_event_loop()
        loop.close()
        self.assertNotIn("tickwheel", type(loop).__module__)
    def test_of_both(self): pass
    @unittest.skip("both skip")
    def test_of_none(self): pass
unittest.main()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("suites")
@pytest.mark.parametrize(("swap", "arguments"), [("loop", MIXINS), ("timeouts", TIMEOUTS)])
def test_cpython_s_own(swap, arguments):
    """
    CPython's test mixins for event loops pass on our loop, and CPython's timeout tests pass with our timeouts.
    """
    environment = os.environ | {"PYTHONPATH": str(FOLDER / "swap" / swap)}
    command = [sys.executable, *arguments]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "OK" in answer.stderr


def test_a_difference_is_found(tmp_path, monkeypatch, capsys):
    """
    The program that compares suites names and counts each test whose outcome on our loop differs.
    """
    monkeypatch.syspath_prepend(str(FOLDER))
    from suites import Suite  # noqa: PLC0415 - likewise

    import run  # noqa: PLC0415 - it can only be imported from here

    file = tmp_path / "racy.py"
    file.write_text(RACY, "utf-8")
    bench = run.Bench(Path(sys.executable), tmp_path, tmp_path)
    row = bench.compare(Suite("racy", "unittest", str(file), ()))
    assert row[2:] == (3, 1, 1, 1, 1, 0)
    assert "test_of_stock_only: passed on asyncio, failed on tickwheel" in capsys.readouterr().out
