"""
A job that kills its process at each attempt becomes a dead letter.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tickwheel.scheduler import RetryPolicy, Scheduler, State

OWNER = """
import os, sys, time
from tickwheel.scheduler import Scheduler
scheduler = Scheduler(sys.argv[1])
scheduler.handler("poison")(lambda _: os._exit(9))
scheduler.handler("fine")(lambda _: None)
scheduler.start()
while scheduler.stats()["pending"] or scheduler.stats()["running"]:
    time.sleep(0.01)  # the process is to be killed at any moment of this loop
"""


@pytest.mark.realtime
def test_poison_is_parked(tmp_path):
    """
    If a job crashes its process at each attempt, it becomes a dead letter after its last attempt.
    """
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    client = Scheduler(url)
    client.set("bad", delay=0, handler="poison", retry=RetryPolicy(attempts=3))
    client.set("good", delay=2.0, handler="fine")
    codes = [subprocess.run([sys.executable, "-c", OWNER, url], timeout=60, check=False).returncode for _ in range(4)]
    assert codes == [9, 9, 9, 0]
    job = client.get("bad")
    assert (job.state, job.attempt) == (State.DEAD, 3)
    assert job.error.startswith("all 3 attempts were cut off by the end of the process")
    assert client.get("good") is None
    client.stop()
