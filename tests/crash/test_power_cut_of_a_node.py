"""
A node loses power while its store is on a server, which does not learn that the node's connections are gone.
"""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tickwheel.scheduler import Scheduler

JOBS = 30
NODE = """
import os, sys
from tickwheel.scheduler import Scheduler, SetRequest

scheduler = Scheduler(sys.argv[1])
jobs = int(sys.argv[2])

@scheduler.handler("work")
def work(number):
    os.write(1, b"%d\\n" % number)  # threads do not mix what is written at once

scheduler.start()
requests = [SetRequest(f"key-{n}", delay=n / 10, handler="work", payload=n) for n in range(jobs)]
assert all(answer.outcome == "created" for answer in scheduler.set_many(requests))
os.write(1, b"acknowledged\\n")
sys.stdin.read()
"""


@pytest.mark.realtime
@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_another_node_continues(request, kind):
    """
    Every acknowledged job fires on another node, although the server still holds the connections of the dead node.
    """
    line = request.getfixturevalue(f"{kind}_line")
    if kind == "postgres":
        url = request.getfixturevalue("postgres_url")
        database = url.partition("///")[2].partition("?")[0]
        through = f"postgresql://tick@127.0.0.1:{line.port}/{database}?lease_s=1"
        url += "&lease_s=1"
    else:
        url = request.getfixturevalue("redis_server").url("?prefix=cut&lease_s=1")
        through = f"redis://127.0.0.1:{line.port}/0?prefix=cut&lease_s=1"
    before = set()
    with subprocess.Popen(
        [sys.executable, "-c", NODE, through, str(JOBS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as node:
        try:
            is_acknowledged = False
            for printed in node.stdout:
                is_acknowledged |= printed == "acknowledged\n"
                if printed.strip().isdigit():
                    before.add(int(printed))
                if is_acknowledged and len(before) >= 3:
                    break
        finally:
            line.cut()  # the server learns nothing of its end
            node.kill()
        before.update(int(printed) for printed in node.stdout if printed.strip().isdigit())
    after, is_done = set(), threading.Event()
    with Scheduler(url) as scheduler:

        @scheduler.handler("work")
        def work(number):
            after.add(number)
            if before | after == set(range(JOBS)):
                is_done.set()

        scheduler.start()
        assert is_done.wait(60), sorted(set(range(JOBS)) - before - after)
    assert is_acknowledged
    assert len(before) < JOBS
