"""
Real conditions around a store: a full disk, a contended key, and more jobs than memory has room for.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

from tickwheel.scheduler import Scheduler, SchedulerOptions, SetRequest

FULL_DISK = """
    import resource, signal, sys
    from tickwheel.jobs.model import Job, Set
    from tickwheel.jobs.errors import StoreError
    from tickwheel.stores.sqlite import SqliteStore

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = SqliteStore(sys.argv[1])
    store.open()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    written, said = 0, None
    for number in range(200):
        try:
            store.apply([Set(Job(f"key-{number}", 0, number, bytes(10_000)))])
        except StoreError as error:
            said = error
            break
        written += 1
    print(type(said).__name__, said)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.apply([Set(Job("after", 0, 0, bytes(10_000)))])
    counted = store.count()["pending"]
    store.close()
    print(written, counted)
"""


def test_a_disk_without_room(tmp_path):
    """
    If a file cannot grow, the write fails with a message.

    Earlier writes are kept, and new writes succeed as soon as there is room again.
    """
    path = tmp_path / "jobs.db"
    program = [sys.executable, "-c", textwrap.dedent(FULL_DISK), str(path)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    said, counts = done.stdout.splitlines()
    told, counted = map(int, counts.split())
    assert said.startswith("StoreError")
    assert "disk" in said
    assert 5 < told < 200
    assert counted in {told + 1, told + 2}  # the failed write may be there, because its commit had been sent
    scheduler = Scheduler(f"sqlite:///{path}")
    assert all(scheduler.get(f"key-{number}") is not None for number in range(told))
    scheduler.stop()


def test_a_hundred_thousand_sets_of_one_key(tmp_path):
    """
    However often one key is set, there is one job for it, with the last generation.

    This job runs once.
    """
    ran = []
    is_done = threading.Event()
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")

    @scheduler.handler("h")
    def handle(payload):
        ran.append(payload)
        is_done.set()

    scheduler.start()
    answers = scheduler.set_many(
        SetRequest("key", delay=3600.0, handler="h", payload=number) for number in range(100_000)
    )
    assert len(answers) == 100_000
    assert scheduler.stats()["pending"] == 1
    assert scheduler.get("key").generation == answers[-1].job.generation
    scheduler.run_now("key")
    assert is_done.wait(20.0)
    scheduler.stop()
    assert ran == [99_999]


def test_more_due_at_once_than_memory_has_room(tmp_path):
    """
    If more jobs are due at one moment than a node may stage, each job runs once, and the node never stages too many.
    """
    count, staged_max = 20_000, 1_000
    ran = []
    counts = []
    is_done = threading.Event()
    options = SchedulerOptions(staged_max=staged_max, running_max=500)
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}", options=options)

    @scheduler.handler("h")
    def handle(payload):
        ran.append(payload)
        if payload % 500 == 0:
            counts.append(scheduler.stats()["staged"])
        if len(ran) == count:
            is_done.set()

    scheduler.set_many(SetRequest(f"key-{number}", delay=0.5, handler="h", payload=number) for number in range(count))
    scheduler.start()
    assert is_done.wait(100.0), len(ran)
    scheduler.stop()
    assert sorted(ran) == list(range(count))
    assert max(counts) <= staged_max + 1_000  # one more page may be read when the room is used up
