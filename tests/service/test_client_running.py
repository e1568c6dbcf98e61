"""
Handlers of a client while the client stops, and the timeouts of async handlers.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from tickwheel.remote import _puller
from tickwheel.remote._loop import start_loop
from tickwheel.remote._pulls import RemotePulls
from tickwheel.scheduler import (
    AsyncScheduler,
    DeadLetter,
    InvalidJobError,
    JobStoppedError,
    Outcome,
    Retry,
    RetryPolicy,
    Snooze,
    State,
)

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

ONCE = RetryPolicy(attempts=1)


def test_a_stop_waits_for_running_handlers(client, server, monkeypatch):
    """
    If a handler still runs while its client stops, the client extends the lease, and the handler's result counts.
    """
    monkeypatch.setattr(_puller, "_BEAT_S", 0.1)
    begun, extended = threading.Event(), threading.Semaphore(0)

    @client.handler("slow")
    def slow(_payload):
        begun.set()
        for _ in range(10):
            assert extended.acquire(timeout=60)

    client.start()
    extend = RemotePulls.extend
    monkeypatch.setattr(RemotePulls, "extend", lambda *asked: (extended.release(), extend(*asked))[1])
    client.set("slow", delay=0, target="pull", handler="slow", retry=ONCE)
    assert begun.wait(60)
    assert client.stop(timeout=None) == []
    assert server.job("GET", "slow").status == 404
    assert server.job("GET", "slow", action=":history").json["records"] == []


def test_a_stop_ends_handlers_past_their_timeout(client, server):
    """
    A stop without a time limit waits for a handler, but not longer than the handler's timeout.
    """
    begun, go_on = threading.Event(), threading.Event()

    @client.handler("hangs", timeout=0.5)
    def hangs(_payload):
        begun.set()
        go_on.wait(300)

    client.start()
    client.set("hangs", delay=0, target="pull", handler="hangs", retry=ONCE)
    assert begun.wait(60)
    client.stop(timeout=None)
    go_on.set()
    assert server.job("GET", "hangs").json["error"] == "TimeoutError: it did not end within 0.5 s"
    server.job("DELETE", "hangs")


@pytest.mark.parametrize(("beats", "state"), [(True, None), (False, "dead")])
def test_an_async_handler_that_beats(server, beats, state):
    """
    Each heartbeat of an async handler restarts its timeout. A handler without heartbeats is cancelled at the timeout.
    """
    ended = []

    async def main():
        scheduler, done = AsyncScheduler(f"http://{server.host}:{server.port}"), asyncio.Event()

        @scheduler.handler("beats", timeout=2.0)
        async def handler(_payload, firing):
            try:
                for _ in range(20):
                    await asyncio.sleep(0.15)
                    if beats:
                        firing.heartbeat()
                ended.append("done")
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            finally:
                done.set()

        async with scheduler:
            await scheduler.set("beats", delay=0, target="pull", handler="beats", retry=ONCE)
            await asyncio.wait_for(done.wait(), 60)

    asyncio.run(main())
    assert ended == ["done" if beats else "cancelled"]
    found = server.job("GET", "beats")
    assert (found.json["state"] if found.status == 200 else None) == state
    server.job("DELETE", "beats")


def test_a_queue_may_be_named_now(client, until):
    """
    A queue may be named "now", and the figures of a client contain it.
    """
    client.set("odd", delay=0, target="pull", handler="now")
    until(lambda: "now" in client.stats()["pull"])
    client.cancel("odd")


def test_a_stop_inside_an_async_handler(server):
    """
    An async handler may stop the client that runs it. The stop completes after the handler has ended.
    """

    async def main():
        client, stopped = AsyncScheduler(f"http://{server.host}:{server.port}"), asyncio.Event()

        @client.handler("stops")
        async def stops(_payload):
            assert await client.stop(timeout=None) == []
            stopped.set()

        await client.start()
        await client.set("stops", delay=0, target="pull", handler="stops", retry=ONCE)
        await asyncio.wait_for(stopped.wait(), 60)
        while client.is_started:  # noqa: ASYNC110  nobody says when
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert server.job("GET", "stops").status == 404


@pytest.mark.parametrize("kind", ["coroutine", "thread", "process"])
def test_a_running_job_is_stopped(client, monkeypatch, kind):
    """
    If a running job is cancelled, the client's handler is asked to stop, whatever kind of handler it is.
    """
    monkeypatch.setattr(_puller, "_BEAT_S", 0.1)
    ends = []

    async def waits(_payload):
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    def looks(_payload, firing):
        while not firing.cancelled:
            time.sleep(0.01)
        with pytest.raises(JobStoppedError):
            firing.heartbeat()
        ends.append("looked")

    if kind == "process":
        client.handler(kind, executor="process")(time.sleep)
    else:
        client.handler(kind)(waits if kind == "coroutine" else looks)
    client.start()
    client.set("stopped", delay=0, target="pull", handler=kind, payload=300, retry=ONCE)
    while client.cancel("stopped", running=True).outcome is not Outcome.STOPPING:
        client.set("stopped", delay=0, target="pull", handler=kind, payload=300, retry=ONCE)
        time.sleep(0.1)
    assert client.stop(timeout=60) == []
    assert ends == {"coroutine": ["cancelled"], "thread": ["looked"], "process": []}[kind]


def test_the_loop_of_a_client_without_one(client, until):
    """
    All async handlers of a `Scheduler` run on one event loop, which ends when the scheduler stops.
    """
    loops, ended = [], threading.Semaphore(0)

    @client.handler("shares")
    async def shares(_payload):
        loops.append(asyncio.get_running_loop())
        ended.release()

    client.start()
    for number in range(3):
        client.set(f"shares {number}", delay=0, target="pull", handler="shares")
        assert ended.acquire(timeout=60)
    assert client.stop(timeout=60) == []
    assert len(set(loops)) == 1
    until(loops[0].is_closed)


def test_a_generator_without_references():
    """
    If nothing refers to an async generator any more, it is closed before its event loop ends.
    """
    ended, held = [], []

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def hold():
        held.append(numbers())
        return await anext(held[0])

    def drop():
        held.clear()
        loop.stop()

    loop, thread = start_loop("ends")
    assert asyncio.run_coroutine_threadsafe(hold(), loop).result(60) == 1
    loop.call_soon_threadsafe(drop)
    thread.join(60)
    assert (ended, loop.is_closed()) == ([True], True)


def test_a_coroutine_at_the_time_limit_of_a_stop(client):
    """
    A coroutine that has not ended at the time limit of a stop is cancelled.
    """
    begun, cut = threading.Event(), threading.Event()

    @client.handler("endless")
    async def endless(_payload):
        begun.set()
        try:
            await asyncio.sleep(300)
        finally:
            cut.set()

    client.start()
    client.set("endless", delay=0, target="pull", handler="endless")
    assert begun.wait(60)
    assert [firing.job.key for firing in client.stop(timeout=0.1)] == ["endless"]
    assert cut.wait(60)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (DeadLetter("a\0b\ud800"), "a\\x00b\\ud800"),
        (DeadLetter(ValueError(5)), "5"),
        (Snooze(math.nan), "delay is nan"),
        (Retry("soon"), "delay is 'soon'"),
    ],
)
def test_odd_results_of_a_handler(client, answer, error, until):
    """
    If the reason or the delay in a handler's result is invalid, the attempt ends with an error.
    """
    client.handler("odd")(lambda _payload: answer)
    client.start()
    client.set("odd", delay=0, target="pull", handler="odd", retry=ONCE)
    until(lambda: client.get("odd").state is State.DEAD)
    assert client.get("odd").error.startswith(error)
    client.cancel("odd")


def test_no_thread_to_spare(client, monkeypatch, caplog):
    """
    If the system has no thread for a worker, the leased job waits until a thread can be started.
    """
    monkeypatch.setattr(_puller, "_PAUSE_S", 0.01)
    start, refused, done = threading.Thread.start, [], threading.Semaphore(0)

    def start_later(thread):
        if thread.name.startswith("tickwheel-puller") and len(refused) < 3:
            refused.append(thread)
            message = "can't start new thread"
            raise RuntimeError(message)
        start(thread)

    client.handler("spare")(lambda _payload: done.release())
    client.start()
    monkeypatch.setattr(threading.Thread, "start", start_later)
    for number in range(2):
        client.set(f"spare-{number}", delay=0, target="pull", handler="spare", retry=ONCE)
    assert done.acquire(timeout=60)
    assert done.acquire(timeout=60)
    assert client.stop(timeout=60) == []
    assert len(refused) == 3
    assert "a worker could not be started" in caplog.text


def test_a_handler_that_cannot_be_sent(client):
    """
    A handler that cannot be sent to a worker process is refused at the start, not when its first job is due.
    """

    def replaced(_payload):
        pass

    replaced.__qualname__ = "test_odd_results_of_a_handler"
    client.handler("replaced", executor="process")(replaced)
    with pytest.raises(InvalidJobError, match="replaced"):
        client.start()
