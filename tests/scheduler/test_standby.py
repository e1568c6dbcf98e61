"""
Several processes call `start(role="auto")` on one file.

One of these processes fires, and another takes over when the first one ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from tickwheel.errors import ClosedError
from tickwheel.observe.events import OwnershipGained
from tickwheel.scheduler import AsyncScheduler, InvalidJobError, Scheduler, StoreInUseError

pytestmark = pytest.mark.realtime

APP = """
import os
import sys

from tickwheel.scheduler import AsyncScheduler, StoreError

scheduler = AsyncScheduler("sqlite:///jobs.db")


@scheduler.handler("sign")
def sign(payload):
    with open("fired", "a") as file:
        print(payload, os.getpid(), file=file)


async def app(scope, receive, send):
    assert scope["type"] == "lifespan"
    await receive()
    await scheduler.start(role="auto")
    with open("started", "a") as file:
        print(os.getpid(), file=file)
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await scheduler.stop()
    await send({"type": "lifespan.shutdown.complete"})
"""


def words(path):
    """
    Return the words of each complete line of a file, or nothing while the file does not exist.
    """
    return (
        [line.split() for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        if path.exists()
        else []
    )


def test_the_next_one_follows(make, file_url, record):
    """
    If two schedulers are started on one file, the second one is a client while the first one runs.

    The second one fires after the first one has stopped.
    """
    first, second = make(file_url), make(file_url)
    for scheduler, name in ((first, "first"), (second, "second")):
        scheduler.handler("h")(lambda payload, name=name: record((payload, name)))
    gained = threading.Event()
    second.subscribe(lambda event: gained.set() if isinstance(event, OwnershipGained) else None)
    assert first.start(role="auto").is_started
    assert not second.start(role="auto").is_started
    second.set("a", delay=0, handler="h", payload=1)
    assert record.wait(1) == [(1, "first")]
    first.stop()
    assert gained.wait(60)
    second.set("b", delay=0, handler="h", payload=2)
    assert record.wait(2)[1] == (2, "second")


def test_a_stop_ends_the_wait(make, file_url):
    """
    A waiting standby can be stopped.

    Afterwards it never becomes the owner, and cannot be started again.
    """
    first, second = make(file_url), make(file_url)
    first.start()
    for _ in range(2):  # at the second pass, the standby already waits
        second.start(role="auto")
    assert [thread.name for thread in threading.enumerate()].count("tickwheel-standby") == 1
    assert second.stop() == []
    first.stop()
    with closing(Scheduler(file_url)) as third:
        third.start()
    with pytest.raises(ClosedError):
        second.start(role="auto")


def test_roles(make, file_url):
    """
    An unknown role is refused.

    The role of owner is refused if another process is the owner.
    """
    with pytest.raises(InvalidJobError, match="role is 'leader': pass one of owner, auto"):
        make(file_url).start(role="leader")
    with pytest.raises(InvalidJobError, match="role is 'leader'"):
        make("http://127.0.0.1:9").start(role="leader")
    make(file_url).start()
    with pytest.raises(StoreInUseError):
        make(file_url).start(role="owner")


def test_the_async_scheduler(file_url):
    """
    The scheduler for asyncio accepts a role, too.
    """

    async def run() -> None:
        first, second = AsyncScheduler(file_url), AsyncScheduler(file_url)
        await first.start(role="auto")
        await second.start(role="auto")
        assert (first.is_started, second.is_started) == (True, False)
        await second.stop()
        await first.stop()

    asyncio.run(run())


@pytest.mark.slow
def test_workers_of_a_web_server(tmp_path, until):
    """
    Of four uvicorn workers one fires, and none fails.

    When that worker is killed, another worker fires the next job.
    """
    pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'tickwheel[service]'")
    (tmp_path / "app.py").write_text(APP, "utf-8")
    command = [sys.executable, "-m", "uvicorn", "app:app", "--workers", "4", "--port", "0", "--lifespan", "on"]
    log = (tmp_path / "log").open("w")
    with log, subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as server:
        try:

            def explain():
                return (tmp_path / "log").read_text()

            until(lambda: len(words(tmp_path / "started")) >= 4, explain)
            with closing(Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")) as client:
                client.set("a", delay=0, handler="sign", payload="a")
                # otherwise the end of the job would be lost with its owner
                until(lambda: client.get("a") is None, explain)
                ((_, owner),) = words(tmp_path / "fired")
                os.kill(int(owner), signal.SIGKILL)
                client.set("b", delay=0, handler="sign", payload="b")
                until(lambda: client.get("b") is None, explain)
            (first, (name, successor)) = words(tmp_path / "fired")
            assert (first, name, successor != owner) == (["a", owner], "b", True)
            assert "StoreInUseError" not in explain()
        finally:
            server.terminate()


def test_a_handler_that_only_the_standby_has(make, file_url, caplog, until):
    """
    If only the standby has the handler of some jobs, the standby and the owner each report this once.
    """
    owner, standby = make(file_url), make(file_url)
    owner.handler("mine")(print)
    for name in ("mine", "theirs"):
        standby.handler(name)(print)
    owner.start(role="auto")
    for number in range(3):
        owner.set(f"k{number}", delay=0, handler="theirs")
    owner.set("typo", delay=0, handler="nobody's")
    until(lambda: sum(each["count"] for each in owner.stats()["waiting_for_handler"]) == 4)
    standby.start(role="auto")
    until(lambda: any("on standby" in each.message for each in caplog.records))
    [message] = [each.message for each in caplog.records if "on standby" in each.message]
    assert "3 jobs of handler 'theirs'" in message
    assert "register the same handlers in all processes" in message
    assert [each.message.count("no handler 'theirs'") for each in caplog.records if "waits" in each.message].count(
        1
    ) == 1
