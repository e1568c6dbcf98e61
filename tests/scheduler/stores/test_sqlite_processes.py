"""
Several processes on one SQLite file.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreInUseError
from tickwheel.stores.sqlite import SqliteStore
from tickwheel.testing.store_suite._base import changes_of

PATIENCE_S = 30.0


@pytest.fixture
def store(tmp_path):
    store = SqliteStore(tmp_path / "jobs.db")
    store.open()
    yield store
    store.close()


@pytest.fixture
def start(store):
    """
    Return a function that starts a process with a program on the store's file.

    The fixture stops all these processes.
    """
    started = []

    def start_one(program):
        source = textwrap.dedent(
            """
            import sys
            from tickwheel.jobs.model import *
            from tickwheel.stores.sqlite import SqliteStore
            store = SqliteStore(sys.argv[1])
            store.open()
            def say(text):
                print(text, flush=True)
            """
        ) + textwrap.dedent(program)
        process = subprocess.Popen(
            [sys.executable, "-c", source, store.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.wait(PATIENCE_S)
        process.stdin.close()
        process.stdout.close()


OWN = """
    (lease,) = store.acquire("the child")
    jobs = [answer.job for answer in store.apply([Set(Job(f"job {i}", 0, i)) for i in range(50)])]
    store.apply([Begin(job, lease.epoch) for job in jobs[:20]])
    store.apply([Settle(job, lease.epoch) for job in jobs[:5]])
    say(lease.epoch)
    sys.stdin.read()
"""


def test_owner_that_is_killed(store, start):
    """
    While an owner lives, no other process becomes owner.

    Once the owner is killed, it is no longer listed, and the next process takes over.
    """
    child = start(OWN)
    epoch = int(child.stdout.readline())
    with pytest.raises(StoreInUseError, match=f"is owned by the child, process {child.pid} on "):
        store.acquire("the parent")
    assert store.count() == {"pending": 30, "running": 15, "dead": 0}
    assert [node.owner for node in store.nodes()] == ["the child"]
    child.send_signal(signal.SIGKILL)
    child.wait(PATIENCE_S)
    assert store.nodes() == []
    (lease,) = store.acquire("the parent")
    assert (lease.epoch, lease.rescued) == (epoch + 1, 15)
    assert store.count() == {"pending": 45, "running": 0, "dead": 0}


def test_owner_that_is_stopped(store, start):
    """
    A suspended process remains the owner of its file.
    """
    child = start(OWN)
    child.stdout.readline()
    child.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreInUseError):
        store.acquire("the parent")
    child.send_signal(signal.SIGCONT)


def test_owner_that_ends(store, start):
    """
    An owner that exits without a release leaves the file free.
    """
    child = start(OWN)
    child.stdout.readline()
    child.stdin.close()
    child.wait(PATIENCE_S)
    assert store.acquire("the parent")[0].rescued == 15


@pytest.mark.needs("os.fork")
def test_childs_child_does_not_keep_the_lock(store, start):
    """
    If an owner forked a process that outlives it, the next owner can still lock the file.
    """
    child = start(
        """
        import os, time
        store.acquire("the child")
        if os.fork() == 0:
            os.write(1, b"orphan\\n")
            sys.stdin.read()
            os._exit(0)
        os.write(1, b"owner\\n")
        os._exit(1)
        """
    )
    assert {child.stdout.readline(), child.stdout.readline()} == {"orphan\n", "owner\n"}
    child.wait(PATIENCE_S)
    assert store.acquire("the parent")[0].epoch == 2


def test_others_write_while_one_owns(store, start):
    """
    While an owner runs, several processes set, move and cancel jobs at once.

    No job is lost, and the owner is notified.
    """
    store.acquire("the parent")
    mark = changes_of(store, 0, 1, 2**62, None).mark
    writers = [
        start(
            f"""
            for i in range(100):
                key = f"{name} {{i}}"
                store.apply([Set(Job(key, 0, 5)), Set(Job("shared", 0, i))])
                if i % 10 == 0:
                    store.apply([Move(key, 7), Cancel(f"{name} {{i - 5}}")])
            say("done")
            """
        )
        for name in ("a", "b", "c")
    ]
    assert store.wait_for_change(PATIENCE_S) is True
    seen = {}
    while any(process.poll() is None for process in writers):
        store.wait_for_change(0.05)
        sight = changes_of(store, 0, 1, 2**62, mark)
        seen |= {job.key: job for job in sight.changed}
        mark = sight.mark
        store.apply([model.Set(model.Job("owner", 0, 9))])
    assert [process.stdout.readline() for process in writers] == ["done\n"] * 3
    seen |= {job.key: job for job in changes_of(store, 0, 1, 2**62, mark).changed}
    pending = {job.key: job for job in store.due(0, 2**62, None, 1_000)}
    assert len(pending) == 3 * (100 - 9) + 2
    missing = {key: job for key, job in pending.items() if key != "owner" and seen.get(key) != job}
    assert missing == {}


def test_killed_while_writing(store, start):
    """
    A process that is killed while it writes leaves only whole batches.

    The stored counts agree with the jobs.
    """
    child = start(
        """
        for i in range(10**9):
            store.apply([Set(Job(f"{i} {j}", 0, j)) for j in range(20)])
            if i == 5:
                say("under way")
        """
    )
    child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait(PATIENCE_S)
    jobs = store.due(0, 2**62, None, 10**6)
    assert len(jobs) >= 120
    assert len(jobs) % 20 == 0
    assert store.count()["pending"] == len(jobs)
    assert store.acquire("the parent")[0].epoch == 1
