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
    Run an example and return its output.
    """
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not CRONS.exists(), reason="../shared/traces is absent")
def test_all_real_crons_are_accepted(tmp_path):
    """
    The example that imports cron lines accepts all 978 lines and sets a job for each.

    It can be run twice on the same file.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    for _ in range(2):
        done = run("import_github_crons.py", CRONS, url)
        assert (done.returncode, done.stdout) == (0, "accepted 978, refused 0, pending 978\n"), done.stderr


def test_a_line_that_never_fires_is_refused(tmp_path):
    """
    If a cron line never fires, the example that imports cron lines prints the line and the reason.

    The example sets jobs for the other lines, and its exit code reports an error.
    """
    path = tmp_path / "crons.json"
    path.write_text(json.dumps({"some/where": {"ci.yml": [{"cron": "0 0 31 2 *"}, {"cron": "@daily"}]}}))
    done = run("import_github_crons.py", path)
    assert (done.returncode, done.stdout) == (1, "accepted 1, refused 1, pending 1\n")
    assert "some/where/ci.yml#0: cron is '0 0 31 2 *': it never fires" in done.stderr
    assert "Traceback" not in done.stderr


PRINTED = {
    ("unpaid_order.py", "0.3"): "17 is paid in time: True\n18 is paid in time: False\n17 paid\n18 cancelled\n",
    ("mail_after_last_edit.py", "0.5"): "mail: The wheel was edited 5 times\n",
    ("retries.py",): (
        "attempt 1 failed, another one comes: OSError: no space left for orders\n"
        "attempt 2 failed, another one comes: OSError: no space left for orders\n"
        "attempt 3 was the last: OSError: no space left for orders\n"
        "dead letters: ['export/orders']\n"
        "exported orders as export/orders/2/1\n"
        "attempt 1 succeeded\n"
    ),
    ("nightly_report.py",): (
        "2025-03-30 01:00 UTC is Sun 03:00 in Berlin\n"
        "2025-03-31 00:30 UTC is Mon 02:30 in Berlin\n"
        "2025-04-01 00:30 UTC is Tue 02:30 in Berlin\n"
        "reported 3 times\n"
    ),
    ("device_offline.py", "0.5"): "door is offline\nstill watched: ['silent/boiler', 'silent/lamp']\n",
}


@pytest.mark.realtime
@pytest.mark.parametrize("command", PRINTED, ids=lambda command: command[0])
def test_an_example(command):
    """
    The example prints the expected output, and nothing to stderr.
    """
    name, *seconds = command
    for factor in (1, 6, 36):  # the waits get longer, in case the machine stalled
        done = run(name, *[str(float(each) * factor) for each in seconds])
        assert (done.returncode, done.stderr) == (0, "")
        if not seconds or done.stdout == PRINTED[command]:
            break
    assert done.stdout == PRINTED[command]


def test_every_example_is_run():
    """
    Every example of the scheduler has a test.
    """
    with_brokers = {"celery_eta.py", "rabbitmq_delay.py", "three_nodes.py"}  # in targets/test_examples.py
    with_stores = {"file_store.py"}  # in stores/test_file_store.py
    with_frameworks = {"fastapi_app.py", "flask_app.py", "sqlalchemy_app.py"}  # in test_framework_examples.py
    tested = (
        {command[0] for command in PRINTED} | {"import_github_crons.py"} | with_brokers | with_stores | with_frameworks
    )
    of_scheduler = {
        path.name for path in (ROOT / "examples").glob("*.py") if "tickwheel.scheduler" in path.read_text("utf-8")
    }
    assert of_scheduler <= tested
