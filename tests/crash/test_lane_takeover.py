"""
If a node is killed while one lane has more jobs than all nodes have room for, the other node runs every lane's jobs.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from tickwheel.observe.events import LaneFilled
from tickwheel.scheduler import Scheduler, SchedulerOptions, SetRequest

CROWD = 1_000
LANES = 10
PATIENCE_S = 60.0
OPTIONS = SchedulerOptions(staged_max=200, running_max=40, workers=4)
NODE = """
import os, sys, threading
from tickwheel.observe.events import LaneFilled
from tickwheel.scheduler import Scheduler, SchedulerOptions

scheduler = Scheduler(sys.argv[1], options=SchedulerOptions(staged_max=200, running_max=40, workers=4))
scheduler.handler("crowd", timeout=None)(lambda _: threading.Event().wait())
for lane in range(10):
    scheduler.handler(f"h{lane}")(lambda _: None)
scheduler.subscribe(lambda event: isinstance(event, LaneFilled) and os.write(1, b"full\\n"))
scheduler.start(role="auto")
os.write(1, b"started\\n")
sys.stdin.read()
"""


class Seen:
    """
    A handler that removes the payload of each job from the wanted payloads, and sets `is_done` when none is left.
    """

    def __init__(self, wanted):
        self.left = set(wanted)
        self.is_done = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, payload):
        """
        Record that a job with this payload has run.
        """
        with self._lock:
            self.left.discard(payload)
            if not self.left:
                self.is_done.set()


@pytest.mark.slow
@pytest.mark.realtime
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "redis"])
def test_other_lanes_run_while_a_full_lane_hangs(request, kind, tmp_path):
    """
    While the jobs of a full lane hang, the node that takes over runs the jobs of the other lanes.
    """
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
    elif kind == "postgres":
        url = request.getfixturevalue("postgres_url") + "&lease_s=1"
    else:
        url = request.getfixturevalue("redis_server").url("?prefix=lanes&lease_s=1")
    healthy = [f"{lane}/{number}" for lane in range(LANES) for number in range(10)]
    others, crowd = Seen(healthy), Seen(range(CROWD))
    go_on, is_full = threading.Event(), threading.Event()

    def hang(payload):
        go_on.wait()
        crowd(payload)

    with (
        subprocess.Popen(
            [sys.executable, "-c", NODE, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as node,
        ExitStack() as stack,
    ):
        scheduler = Scheduler(url, options=OPTIONS)
        stack.callback(scheduler.stop)
        stack.callback(go_on.set)
        try:
            assert node.stdout.readline() == "started\n"
            scheduler.handler("crowd", timeout=None)(hang)
            for lane in range(LANES):
                scheduler.handler(f"h{lane}")(others)
            scheduler.subscribe(lambda event: isinstance(event, LaneFilled) and is_full.set())
            scheduler.start(role="auto")
            scheduler.set_many([SetRequest(f"crowd/{n}", delay=0, handler="crowd", payload=n) for n in range(CROWD)])
            assert node.stdout.readline() == "full\n"
            assert kind == "sqlite" or is_full.wait(PATIENCE_S)
        finally:
            node.kill()
        jobs = [SetRequest(each, delay=0, handler=f"h{each.partition('/')[0]}", payload=each) for each in healthy]
        scheduler.set_many(jobs)
        assert others.is_done.wait(PATIENCE_S), others.left
        assert len(crowd.left) == CROWD
        go_on.set()
        assert crowd.is_done.wait(PATIENCE_S), crowd.left
