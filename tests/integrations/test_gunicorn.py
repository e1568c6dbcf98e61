"""
gunicorn with several workers on one SQLite file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
DECLARING = """
from flask_app import create_app, jobs
from tickwheel.scheduler import Schedule

@jobs.handler("report")
def report(_payload): ...

app = create_app()
with app.app_context():
    jobs.scheduler.declare([Schedule("report", every="1d", handler="report")], manifest="shop")
"""
"""The code of an application that opens the store when it is loaded: with `--preload`, before the fork."""


@pytest.mark.needs("os.fork")
@pytest.mark.parametrize("options", [[], ["--preload"]], ids=["each", "preload"])
def test_one_of_the_workers_fires(tmp_path, options):
    """
    All workers accept requests, and each job is fired once, by one of the workers. At SIGTERM all workers stop.
    """
    pytest.importorskip("gunicorn", reason="gunicorn is not installed: pip install gunicorn")
    pytest.importorskip("flask", reason="Flask is not installed: pip install flask")
    (tmp_path / "declaring.py").write_text(DECLARING)
    command = [sys.executable, "-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:0", *options, "declaring:app"]
    path = f"{EXAMPLES}{os.pathsep}{tmp_path}"
    environment = {**os.environ, "JOBS": f"sqlite:///{tmp_path / 'jobs.db'}", "PYTHONPATH": path}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            log = iter(server.stderr.readline, "")
            port = next(int(found[1]) for line in log if (found := re.search(r"Listening at: \S+:(\d+)", line)))
            for number in (17, 18):
                connection = HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request("POST", f"/orders/{number}?minutes=0")
                assert connection.getresponse().status == 201
                connection.close()
            cancelled = first(log, "is cancelled", 2)
            assert sorted(re.findall(r"order (\d+) is cancelled", "".join(cancelled))) == ["17", "18"]
            server.send_signal(signal.SIGTERM)
            rest = "".join(log)
            assert server.wait(60) == 0, rest
            assert "Traceback" not in rest
        finally:
            server.kill()


def first(lines, wanted, count):
    """
    Return the first *count* lines that contain *wanted*.
    """
    found = []
    for line in lines:
        found += [line] if wanted in line else []
        if len(found) == count:
            return found
    pytest.fail(f"{count} lines with {wanted!r} were to come, and these did: {found}")
