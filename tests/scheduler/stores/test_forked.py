"""
If a scheduler is opened before a fork, the child process can neither use nor harm the store of its parent.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs("os.fork")

PATIENCE_S = 60

OPENED = """
import atexit, gc, os, queue, sys
from tickwheel.scheduler import Scheduler, StoreError

fired = queue.SimpleQueue()
scheduler = Scheduler(sys.argv[1])
scheduler.handler("h")(fired.put)
if "started" in sys.argv:
    scheduler.start()
scheduler.set("k", delay=3600, handler="h")
scheduler.get("k")

def see_it_refused(verb):
    try:
        verb()
    except StoreError as error:
        assert "was opened before a fork: make a new scheduler in the child process" in str(error), error
    else:
        os.write(1, b"not refused")

def see_the_parent_live():
    assert os.waitpid(child, 0)[1] == 0
    assert scheduler.get("k").key == "k"
    if scheduler.is_started:
        scheduler.set("now", delay=0, payload="fired", handler="h")
        assert fired.get() == "fired"
"""

REFUSED = """
child = os.fork()
if child == 0:
    see_it_refused(scheduler.start)
    see_it_refused(lambda: scheduler.start(role="auto"))
    see_it_refused(lambda: scheduler.set("k", delay=0, handler="h"))
    assert not scheduler.is_started
    assert "opened before a fork" in str(scheduler), scheduler
    os._exit(0)
see_the_parent_live()
scheduler.stop()
"""

STOPPED = """
child = os.fork()
if child == 0:
    assert scheduler.stop() == []
    scheduler._core.client.store.close()
    assert scheduler.stop() == []
    os._exit(0)
see_the_parent_live()
scheduler.stop()
"""

ENDED = """
atexit.register(scheduler.stop)
child = os.fork()
if child:
    see_the_parent_live()
"""

DROPPED = """
child = os.fork()
if child == 0:
    del scheduler
    gc.collect()
    os._exit(0)
see_the_parent_live()
scheduler.stop()
"""


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "partitions"])
def url(request, tmp_path):
    """
    Return the URL of an empty store, for each kind of store.
    """
    if request.param == "memory":
        return "memory://"
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    partitions = 3 if request.param == "partitions" else 1
    return request.getfixturevalue("redis_server").empty_url(f"&partitions={partitions}")


@pytest.mark.parametrize("state", ["opened", "started"])
@pytest.mark.parametrize("story", [REFUSED, STOPPED, ENDED, DROPPED], ids=["refused", "stopped", "ended", "dropped"])
def test_a_child_leaves_the_parents_connections_alone(url, state, story):
    """
    In a forked child, calls on the parent's scheduler raise an error.

    If the child stops or deletes the scheduler, or exits, the parent's connections still work.
    """
    command = [sys.executable, "-W", "ignore", "-c", OPENED + story, url, state]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr


STOPPED_IN_A_START = """
import os, sys, threading
from tickwheel.scheduler import Scheduler
from tickwheel.engine.engine import Engine

begun, go_on, start = threading.Event(), threading.Event(), Engine.start

def slowly(self):
    begun.set()
    go_on.wait()
    start(self)

Engine.start = slowly
scheduler = Scheduler("memory://")
starter = threading.Thread(target=scheduler.start)
starter.start()
begun.wait()
child = os.fork()
if child == 0:
    assert scheduler.stop() == []
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
go_on.set()
starter.join()
assert scheduler.is_started
scheduler.stop()
"""


def test_a_fork_while_another_thread_starts():
    """
    If another thread of the parent holds a lock of the scheduler during a fork, the child can still stop the scheduler.
    """
    command = [sys.executable, "-W", "ignore", "-c", STOPPED_IN_A_START]
    subprocess.run(command, check=True, timeout=PATIENCE_S)


MADE_BEFORE = """
import os, queue, sys
from tickwheel.scheduler import Scheduler

def name_of(scheduler):
    fired = queue.SimpleQueue()
    scheduler.handler("h")(fired.put)
    assert scheduler.pause_scope("handler:other").by == mine()
    scheduler.set("k", every=3600, handler="h")
    assert scheduler.pause("k").job.pause.by == mine()
    assert {each.by for each in scheduler.history("k")} == {mine()}
    scheduler.start()
    assert scheduler.stats()["owner"].startswith(mine() + ":"), scheduler.stats()["owner"]
    scheduler.stop()

def mine():
    return f"{os.uname().nodename}:{os.getpid()}"

scheduler = Scheduler(sys.argv[1])
child = os.fork()
if child == 0:
    name_of(scheduler)
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_the_name_of_a_child(tmp_path):
    """
    A scheduler that was made before a fork, and is first used in the child, has the child's process id in its name.
    """
    command = [sys.executable, "-W", "ignore", "-c", MADE_BEFORE, f"sqlite:///{tmp_path / 'jobs.db'}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert (ended.returncode, ended.stderr) == (0, "")
