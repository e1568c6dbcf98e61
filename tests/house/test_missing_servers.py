"""
The summary of a test run without servers or the browser.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

spin = pytest.mark.skipif(True, reason="spin or a C compiler is not installed: run make servers")


@pytest.mark.parametrize("_", range(2))
def test_redis(_):
    pytest.skip("Redis is not installed: there is no redis-server")


@spin
def test_model():
    pass


def test_traces():
    pytest.skip("../shared/traces is not here")


def test_client():
    pytest.importorskip("no_redis", reason="redis is not installed: pip install 'tickwheel[redis]'")


def test_passes():
    pass
"""
MISSING = "#!/bin/sh\nprintf 'redis-server\\nspin\\n'\nexit 1\n"
NEEDS_SH = pytest.mark.skipif(not Path("/bin/sh").exists(), reason="there is no /bin/sh")


@pytest.fixture
def closing(root, tmp_path):
    """
    Return a function that runs a small set of tests with a copy of our conftest.py, and returns the output.

    Its argument is the text of the script `scripts/servers` beside the copy, or None for a copy without the script.
    """

    def run(script: str | None) -> list[str]:
        for folder in ("scripts", "tests/systems"):
            (tmp_path / folder).mkdir(parents=True)
        for name in ("conftest.py", "full_only.txt", "systems/sitecustomize.py"):
            shutil.copy(root / "tests" / name, tmp_path / "tests" / name)
        shutil.copytree(root / "tests" / "support", tmp_path / "tests" / "support")
        (tmp_path / "tests" / "test_some.py").write_text(TESTS, "utf-8")
        if script is not None:
            (servers := tmp_path / "scripts" / "servers").write_text(script, "utf-8")
            servers.chmod(0o755)
        command = [sys.executable, "-P", "-m", "pytest", "-ra", "-p", "no:cacheprovider", "-c", os.devnull]
        command += ["-o", f"pythonpath={tmp_path / 'tests/support'}", "--rootdir", tmp_path, tmp_path / "tests"]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        answer = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout.splitlines()

    return run


@NEEDS_SH
def test_missing_programs_are_below_the_list_of_skips(closing):
    """
    The line about missing programs is directly above pytest's summary.

    This line does not count skips for other reasons.
    """
    *_, skip, line, summary = closing(MISSING)
    assert skip.startswith("SKIPPED")
    assert line == ("missing here: redis-server, spin; tests skipped for want of them: 3; `make servers` installs them")
    assert "1 passed, 5 skipped in" in summary


@pytest.mark.parametrize("script", [None, "#!/no/bash\n"], ids=["no script", "no bash"])
def test_no_line_without_the_script(closing, script):
    """
    If the script cannot run (on Windows, for example, bash is missing), the test run is completed as usual.
    """
    *_, skip, summary = closing(script)
    assert skip.startswith("SKIPPED")
    assert "1 passed, 5 skipped in" in summary


@NEEDS_SH
def test_no_line_about_unneeded_programs(closing):
    """
    If no test was skipped because of a missing program, that program is not shown.
    """
    *_, skip, summary = closing("#!/bin/sh\necho nginx\nexit 1\n")
    assert skip.startswith("SKIPPED")
    assert "1 passed, 5 skipped in" in summary
