"""
The examples that need a server, run with a real server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL


def run(name, *arguments, **environment):
    """
    Run an example and return its output.
    """
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


@pytest.mark.realtime
def test_rabbitmq_delay(rabbitmq):
    """
    Paid orders are cancelled.

    Delayed orders arrive later, each once.
    """
    done = run("rabbitmq_delay.py", f"amqp://tick:{SECRET}@127.0.0.1:{rabbitmq.port}/")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        '17 is paid: cancelled\n18 gets more time: moved\nunpaid: {"order":19}\nunpaid: {"order":18}\n'
    )


@pytest.mark.realtime
@pytest.mark.slow
def test_celery_eta(redis_server, tmp_path):
    """
    The tasks are enqueued at their due times.

    A Celery worker runs them.
    """
    pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    broker = f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/5"
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "celery", "--workdir", str(EXAMPLES), "-A", "celery_eta", "worker"]
    with log.open("wb") as out:
        worker = subprocess.Popen(
            [*command, "--pool", "solo", "--loglevel", "warning"],
            env={**os.environ, "BROKER": broker, "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=out,
        )
    try:
        done = run("celery_eta.py", BROKER=broker)
        assert (done.returncode, done.stderr) == (0, "")
        said, *enqueued = done.stdout.split("enqueued ")
        assert said == "bob is moved\neve is cancelled\n"
        # the first job waits for the connection, so the two may arrive in either order
        assert sorted(enqueued) == ["mail/ada\n", "mail/bob\n"]
        give_up = time.monotonic() + 40
        while not ("mail to ada" in log.read_text() and "mail to bob" in log.read_text()):
            assert time.monotonic() < give_up, log.read_text()
            time.sleep(0.05)  # a worker gives no signal
        assert "mail to eve" not in log.read_text()
    finally:
        worker.terminate()
        worker.wait(20)


@pytest.mark.realtime
@pytest.mark.slow
def test_three_nodes(redis_server):
    """
    Three nodes share the jobs.

    When one node is killed, no job is lost.
    """
    done = run("three_nodes.py", f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/7")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "node 1 is killed\n90 of 90 jobs fired, on 3 nodes\n"
