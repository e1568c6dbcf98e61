"""
Real workers of Celery, RQ, Dramatiq and taskiq run jobs that were fired into a real Redis.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tickwheel.observe.events import JobSucceeded
from tickwheel.targets import Firing, apply_at
from tickwheel.targets.celery import CeleryTarget
from tickwheel.targets.dramatiq import DramatiqTarget
from tickwheel.targets.rq import RqTarget
from tickwheel.targets.taskiq import TaskiqTarget

PATIENCE_S = 40.0
SECRET = "hunter2%2Fx"  # noqa: S105  as it is written in a URL


class Rig:
    """
    A database of the Redis server, and the file of notes that the workers on this database write.
    """

    def __init__(self, url, folder):
        self.url = url
        self.notes = folder / "notes"
        self.log = folder / "worker.log"
        self.workers = []

    def start(self, *command):
        """
        Start a worker.
        """
        environment = {
            **os.environ,
            "TICKWHEEL_BROKER": self.url,
            "TICKWHEEL_NOTES": str(self.notes),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", *command]
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.log.parent, start_new_session=True
            )
        self.workers.append(process)

    def wait(self, count):
        """
        Wait until the file of notes has at least *count* lines, and return its lines.
        """
        give_up = time.monotonic() + PATIENCE_S
        while len(lines := self.lines()) < count:
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.02)  # a worker gives no signal
        return lines

    def lines(self):
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def stop(self):
        """
        End the workers, and all processes that they started.
        """
        for process in self.workers:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.workers:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def client(redis_server):
    """
    Return a client of an empty database.
    """
    import redis  # noqa: PLC0415  only where it is installed

    with redis.Redis.from_url(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/2") as made:
        made.flushdb()
        yield made


@pytest.fixture
def rig(redis_server, client, tmp_path):
    """
    Return a rig in which workers can be started.
    """
    assert client.dbsize() == 0
    made = Rig(f"redis://:{SECRET}@127.0.0.1:{redis_server.port}/2", tmp_path)
    yield made
    made.stop()


def check(rig, scheduler, told, set_two):
    """
    Let two jobs fire, and check that a worker runs each of them once.

    The id of each task must be the message id of its job, which all attempts share.
    """
    jobs = set_two(scheduler)
    told.wait_for(lambda: sum(isinstance(each, JobSucceeded) for each in told.items) == 2)
    expected = [f"{name} {Firing(job, 1, 0).message_id}" for name, job in zip(("one", "two"), jobs, strict=True)]
    assert sorted(rig.wait(2)) == expected


@pytest.mark.slow
@pytest.mark.realtime
def test_celery(rig, client, make, events, until):
    """
    A Celery task is enqueued once, at its due time, however short the visibility timeout is.
    """
    celery = pytest.importorskip("celery", reason="celery is not installed: pip install 'tickwheel[celery]'")
    app = celery.Celery("sender", broker=rig.url)
    app.conf.broker_transport_options = {"visibility_timeout": 1}
    scheduler = make("memory://", targets={"celery": CeleryTarget(app)}).start()
    told = events(scheduler)
    rig.start("celery", "-A", "celery_worker", "worker", "--pool", "solo", "--loglevel", "warning")

    def set_two(scheduler):
        first = apply_at(scheduler, "tasks.note", ["one"], countdown=0, target="celery").job
        assert rig.wait(1)  # the worker has started
        until(lambda: client.hlen("unacked") == 0)  # the worker acknowledges a task only after its note
        second = apply_at(scheduler, "tasks.note", ["two"], countdown=3, target="celery").job
        while time.time() * 1000 < second.due_at - 500:
            # no worker holds the task before its due time, so none can lose it
            assert (client.llen("celery"), client.hlen("unacked")) == (0, 0)
            time.sleep(0.1)
        return first, second

    check(rig, scheduler, told, set_two)


@pytest.mark.slow
@pytest.mark.realtime
def test_rq(rig, client, make, events):
    """
    An RQ worker runs the fired jobs, and needs no scheduler of RQ.
    """
    pytest.importorskip("rq", reason="rq is not installed: pip install 'tickwheel[rq]'")
    scheduler = make("memory://", targets={"rq": RqTarget(client)}).start()
    rig.start("rq.cli", "worker", "--url", rig.url, "--worker-class", "rq.worker.SimpleWorker")
    check(rig, scheduler, events(scheduler), lambda scheduler: _two(scheduler, "rq_worker.note", "rq"))


@pytest.mark.slow
@pytest.mark.realtime
def test_dramatiq(rig, make, events):
    """
    A Dramatiq worker runs the fired jobs.
    """
    pytest.importorskip("dramatiq", reason="dramatiq is not installed: pip install 'tickwheel[dramatiq]'")
    from dramatiq.brokers.redis import RedisBroker  # noqa: PLC0415 only where it is installed

    broker = RedisBroker(url=rig.url)
    scheduler = make("memory://", targets={"dramatiq": DramatiqTarget(broker)}).start()
    rig.start("dramatiq", "dramatiq_worker", "--processes", "1", "--threads", "1")
    check(rig, scheduler, events(scheduler), lambda scheduler: _two(scheduler, "note", "dramatiq"))
    scheduler.stop()
    broker.client.close()


@pytest.mark.slow
@pytest.mark.realtime
def test_taskiq(rig, make, events):
    """
    A taskiq worker runs the fired jobs.
    """
    taskiq_redis = pytest.importorskip("taskiq_redis", reason="taskiq-redis is not installed")
    target = TaskiqTarget(taskiq_redis.ListQueueBroker(rig.url))
    scheduler = make("memory://", targets={"taskiq": target}).start()
    rig.start("taskiq", "worker", "taskiq_worker:broker", "--workers", "1")
    check(rig, scheduler, events(scheduler), lambda scheduler: _two(scheduler, "tasks:note", "taskiq"))


def _two(scheduler, task, target):
    return [
        apply_at(scheduler, task, [line], countdown=0.2, target=target, key=f"note/{line}").job
        for line in ("one", "two")
    ]
