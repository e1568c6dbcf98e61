"""
The scheduler's examples run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CRONS = ROOT.parent / "shared" / "traces" / "github_workflow_crons_2021.json"


def run(name, *arguments):
    """
    Run an example and return what it did.
    """
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not CRONS.exists(), reason="../shared/traces is absent")
def test_all_real_crons_are_accepted(tmp_path):
    """
    The 978 lines are accepted, into a file and again, and every one is a job.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for _ in range(2):
        done = run("import_github_crons.py", CRONS, url)
        assert (done.returncode, done.stdout) == (0, "accepted 978, refused 0, pending 978\n"), done.stderr


def test_a_line_that_never_fires_is_refused(tmp_path):
    """
    A refused line is named with the reason, the others are set, and the exit code says that something was refused.
    """
    path = tmp_path / "crons.json"
    path.write_text(json.dumps({"some/where": {"ci.yml": [{"cron": "0 0 31 2 *"}, {"cron": "@daily"}]}}))
    done = run("import_github_crons.py", path)
    assert (done.returncode, done.stdout) == (1, "accepted 1, refused 1, pending 1\n")
    assert "some/where/ci.yml#0: cron is '0 0 31 2 *': it never fires" in done.stderr
    assert "Traceback" not in done.stderr
