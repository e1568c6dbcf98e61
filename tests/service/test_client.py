"""
The verbs of the library with `Scheduler("http://…")`, on a real service.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import threading
import time
from datetime import UTC, date, datetime

import pytest
from years import YEAR

from tickwheel.errors import ClosedError
from tickwheel.remote._pulls import RemotePulls
from tickwheel.scheduler import (
    AccessError,
    AsyncScheduler,
    DeadLetter,
    HandlerNotFoundError,
    InvalidJobError,
    LeaseEndedError,
    Outcome,
    Progress,
    Retry,
    RetryPolicy,
    Scheduler,
    SchedulerOptions,
    SetRequest,
    State,
    StoreError,
    UnsupportedError,
)

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

READ, WRITE = "r" * 40, "w" * 40
AT_ONCE = RetryPolicy(attempts=2, base_ms=0, jitter=0)
KEYS = (".", "..", "...", "a:run", "a/b", "%41", "é ☃", "a?b#c", "line\nend", '"', "x" * 512)


def url_of(server) -> str:
    return f"http://{server.host}:{server.port}"


def whole(connection) -> bytes:
    """
    Return the next complete message from *connection*, with head and body.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        more = connection.recv(65536)
        data, body = data + more, body + more
    return data


@pytest.fixture
def relay(server):
    """
    Return the URL of a relay to the service, and a list. For each item of the list, the relay loses one answer.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    cuts = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                ours, _ = listener.accept()
                with ours, socket.create_connection((server.host, server.port)) as theirs:
                    theirs.sendall(whole(ours))
                    answer = whole(theirs)
                    if cuts:
                        cuts.pop()
                    else:
                        ours.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", cuts
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("key", KEYS)
def test_any_key_has_an_address(client, key):
    """
    Every key that a store accepts can be used over HTTP, and every other key is refused.
    """
    assert client.set(key, delay=3600, target="log").outcome is Outcome.CREATED
    assert client.get(key).key == key
    assert client.move(key, delay=7200).outcome is Outcome.MOVED
    assert key in [job.key for job in client.list(key).jobs]
    assert client.cancel(key).outcome is Outcome.CANCELLED
    assert client.get(key) is None


def test_unknown_handlers_and_targets(client):
    """
    If the service does not know a handler or target, the client raises the same error as the library does.
    """
    with pytest.raises(HandlerNotFoundError, match="no handler is named 'absent'") as caught:
        client.set("k", delay=1, handler="absent")
    assert caught.value.handler == "absent"
    with pytest.raises(HandlerNotFoundError):
        client.set_many([SetRequest("a", delay=1, handler="works"), SetRequest("b", delay=1, handler="absent")])
    assert client.get("a") is None
    with pytest.raises(InvalidJobError, match=r"every is 0\.5: give at least 1 s") as caught:
        client.set("k", every=0.5, target="log")
    assert (caught.value.name, caught.value.value) == ("every", 0.5)
    assert client.forecast(time.time(), 60, 3) == [0, 0, 0]
    bounds = {
        "until": f"{YEAR}-01-01T00:00Z",
        "max_runs": 5,
        "misfire": "skip",
        "misfire_grace": "5m",
        "overlap": "once",
    }
    excluded = [date(YEAR - 1, 12, 25), "* * * * SUN"]
    rule = json.loads(
        client.set("comes/back", cron="@every 1m", target="log", exclude=excluded, **bounds).job.recurrence
    )
    assert (rule["every_ms"], rule["until"], rule["max_runs"], rule["grace_ms"]) == (
        60_000,
        int(datetime(YEAR, 1, 1, tzinfo=UTC).timestamp()) * 1000,
        5,
        300_000,
    )
    assert rule["overlap"] == "once"
    assert (rule["exclude"], rule["tz"]) == ([f"{YEAR - 1}-12-25", "* * * * SUN"], "UTC")
    client.set("comes/once", delay=60, target="log")
    assert [job.key for job in client.list("comes/", recurring=True).jobs] == ["comes/back"]
    assert client.cancel("comes/back").outcome is client.cancel("comes/once").outcome is Outcome.CANCELLED
    (shard,), stats = client.shards(), client.stats()
    assert (shard.number, shard.owner, shard.epoch >= 1, shard.until) == (0, stats["owner"], True, None)
    assert abs(stats["now"] - time.time() * 1000) < 3_600_000  # milliseconds, as in the stats of a local scheduler


@pytest.mark.needs("os.fork")
def test_a_fork(client, monkeypatch):
    """
    The child of a fork uses new connections and threads, and can exit.
    """
    client.set("forked", delay=3600, target="log")
    with monkeypatch.context() as patch:
        patch.setattr(client._core._transport, "_turns", asyncio.Semaphore(0))
        child = os.fork()
        if child == 0:
            os._exit(0 if client.cancel("forked").outcome is Outcome.CANCELLED else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.get("forked") is None


def test_a_write_with_a_lost_answer_is_repeated(relay):
    """
    If the answer to a write is lost, the client sends the write again, and the service executes it once.
    """
    url, cuts = relay
    with contextlib.closing(Scheduler(url)) as client:
        cuts += [None, None]
        answer = client.set("once", delay=3600, target="log", if_generation=0)
        assert answer.outcome is Outcome.CREATED
        cuts.append(None)
        assert client.cancel("once", if_generation=answer.job.generation).outcome is Outcome.CANCELLED
        assert cuts == []


def test_no_server_answers():
    """
    If no server answers, an error is raised within the timeout.

    For a write, the error says that the write may have taken effect.
    """
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with contextlib.closing(Scheduler(f"http://127.0.0.1:{port}", timeout=0.3)) as client:
        with pytest.raises(StoreError, match=rf"http://127.0.0.1:{port} did not answer in 0.3 s") as caught:
            client.set("k", delay=1, target="log")
        assert (caught.value.is_transient, caught.value.is_unknown) == (True, True)
        with pytest.raises(StoreError):
            client.start()
        assert not client.is_started


def test_a_service_that_never_answers():
    """
    If the service accepts a request and never answers, the call takes no longer than the timeout.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with contextlib.closing(Scheduler(url, timeout=0.3)) as client, pytest.raises(StoreError, match="no answer"):
            client.get("k")


def test_a_stop_while_calls_are_under_way():
    """
    If the client is stopped, every call in progress ends with an error.

    The error of a write says that the write may have taken effect.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"

        async def stopped():
            scheduler = AsyncScheduler(url, timeout=60)
            calls = scheduler.set("k", delay=1, target="log"), scheduler.cancel_many(["a", "b"]), scheduler.get("k")
            tasks = [asyncio.create_task(call) for call in calls]
            heard = [await asyncio.to_thread(silent.accept) for _ in tasks]
            await scheduler.stop()
            done, _ = await asyncio.wait(tasks, timeout=30)
            for connection, _ in heard:
                connection.close()
            return [task.exception() for task in tasks if task in done]

        *written, read = asyncio.run(stopped())
        assert [type(error) for error in (*written, read)] == [StoreError, StoreError, ClosedError]
        assert all(error.is_unknown for error in written)


def test_tokens(start, monkeypatch):
    """
    A token can be an argument or an environment variable.

    Without a valid token, the error gives the remedy and shows no token.
    """
    server = start(environment={"TICKWHEEL_READ_TOKEN": READ, "TICKWHEEL_WRITE_TOKEN": WRITE})
    url = url_of(server)
    monkeypatch.delenv("TICKWHEEL_TOKEN", raising=False)
    for token, said in (
        (None, "there is no token"),
        ("x" * 40, "not one of this service"),
        (READ, "only allows to read"),
    ):
        with contextlib.closing(Scheduler(url, token=token)) as client:
            with pytest.raises(AccessError, match=said) as caught:
                client.set("k", delay=3600, target="log")
            assert "TICKWHEEL_TOKEN" in str(caught.value)
            assert (token or "-----") not in f"{caught.value!r} {client._core._transport!r}"
    with contextlib.closing(Scheduler(url, token=WRITE)) as client:
        assert client.set("k", delay=3600, target="log").outcome is Outcome.CREATED
    monkeypatch.setenv("TICKWHEEL_TOKEN", READ)
    with contextlib.closing(Scheduler(url)) as client:
        assert client.get("k").key == "k"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"store": "http://user:secret@host"}, "has a user in it: pass token="),
        ({"store": "http://"}, "is not a service's address: write http://host:port"),
        ({"store": "https://host?x=1"}, "is not a service's address"),
        ({"store": "http://host:http"}, "is not a service's address: write http://host:port"),
        ({"store": "http://host:99999"}, "is not a service's address"),
        ({"store": "http://[::1"}, "is not a service's address"),
        ({"store": "http://user:secret@[::1"}, "is not a service's address"),
        ({"store": "http://host\n"}, "is not a service's address"),
        ({"store": "http://host", "token": "secret\n"}, r"the token has a line end, .*: pass it as 'tickwheel token'"),
        ({"store": "http://host", "token": "sécret"}, "or a character that is not ASCII"),
        ({"store": "http://host", "timeout": 0}, "timeout is 0"),
        ({"store": "http://host", "targets": {}}, "targets= was passed with a service"),
        ({"store": "memory://", "token": "t"}, "token= or timeout= was passed with a store"),
    ],
)
def test_bad_arguments(arguments, said):
    """
    An invalid argument or address is refused.

    The error names the remedy, and shows no password.
    """
    with pytest.raises((StoreError, UnsupportedError, InvalidJobError), match=said) as caught:
        Scheduler(**arguments)
    assert "secret" not in str(caught.value)


def test_a_client_has_no_events(client):
    """
    A client of a service cannot subscribe to events.

    The error says that events exist only in the process where jobs fire.
    """
    with pytest.raises(UnsupportedError, match="subscribe where the service is started"):
        client.subscribe(print)


def test_workers(client):
    """
    Over HTTP, a worker can lease, extend, acknowledge and reject jobs.

    Calls that come too late raise the same errors as in the process that fires.
    """
    client.set_many([SetRequest(f"w{n}", delay=0, target="pull", handler="work", payload={"n": n}) for n in range(3)])
    leases = client.lease("work", limit=10)
    assert [(lease.job.key, lease.payload["n"], lease.attempt) for lease in leases] == [
        (f"w{n}", n, 1) for n in range(3)
    ]
    assert client.extend(leases[0].fire_id, 120) > leases[0].until
    client.ack(leases[0].fire_id)
    client.nack(leases[1].fire_id, is_dead=True, error="broken")
    assert (client.get("w1").state, client.get("w1").error) == (State.DEAD, "broken")
    assert client.replay_many(["w1", "w2"])[0].outcome is Outcome.REPLAYED
    client.nack(leases[2].fire_id, delay=3600)
    with pytest.raises(LeaseEndedError, match="refused") as caught:
        client.ack(leases[2].fire_id)
    assert caught.value.fire_id == leases[2].fire_id
    assert client.lease("nothing here", wait=0.05) == []
    client.drain("w")


def test_stop_a_running_job(client):
    """
    If a job is cancelled over HTTP while a worker runs it, the worker is asked to stop.
    """
    client.set("runs", delay=0, target="pull", handler="stopped")
    (lease,) = client.lease("stopped", wait=20)
    assert client.cancel("runs").outcome is Outcome.TOO_LATE
    assert client.cancel("runs", running=True).outcome is Outcome.STOPPING
    with pytest.raises(LeaseEndedError):
        client.ack(lease.fire_id)
    with pytest.raises(InvalidJobError, match="running is 'yes'"):
        client.cancel("runs", running="yes")


def test_stop_many_running_jobs(client):
    """
    Running jobs can be stopped by their keys or by a filter, in one request.
    """
    keys = ["named 1", "named 2", "found 1", "found 2", "found 3"]
    client.set_many([SetRequest(key, delay=0, target="pull", handler="many stopped") for key in keys])
    leases = [client.lease("many stopped", wait=20)[0] for _ in keys]
    answers = client.cancel_many(keys[:2], running=True)
    assert [answer.outcome for answer in answers] == [Outcome.STOPPING] * 2
    answer = client.bulk("cancel", "found", handler="many stopped", state="running", running=True)
    assert (answer.matched, answer.changed, answer.stopping, answer.refused) == (3, 3, 3, 0)
    for lease in leases:
        with pytest.raises(LeaseEndedError):
            client.ack(lease.fire_id)


def test_progress(server, monkeypatch, until):
    """
    The progress that a handler of a client reports is sent to the service, and other clients can read it.
    """
    monkeypatch.setattr("tickwheel.remote._puller._BEAT_S", 0.1)
    noted, go_on = threading.Event(), threading.Event()
    with Scheduler(url_of(server)) as watcher:
        client = Scheduler(url_of(server))

        @client.handler("steps")
        def steps(_payload, firing):
            firing.progress(0.4, "page 12")
            noted.set()
            assert go_on.wait(60)
            firing.progress(1, "20 pages")

        with client:
            client.set("steps", delay=0, target="pull", handler="steps")
            assert noted.wait(60)
            until(lambda: watcher.progress("steps") == Progress(0.4, "page 12"))
            go_on.set()
            until(lambda: watcher.get("steps") is None)
        assert watcher.progress("steps") is None
        assert [record.note for record in watcher.history("steps")] == ["20 pages"]


def test_handlers_pull(client, until):
    """
    A handler that is registered on a client runs in the client's process, for jobs with the target "pull".
    """
    seen, is_done = [], threading.Event()

    @client.handler("mail", concurrency=2)
    def mail(payload, firing):
        seen.append((payload, firing.attempt))
        if payload == "poison":
            return DeadLetter("no use")
        if payload == "again" and firing.attempt == 1:
            return Retry(0, "not yet")
        if payload == "raises":
            message = "broken"
            raise ValueError(message)
        if len(seen) >= 5:
            is_done.set()
        return None

    with client:
        for payload in ("poison", "again", "raises", "fine"):
            client.set(f"m-{payload}", delay=0, target="pull", handler="mail", payload=payload, retry=AT_ONCE)
        dead = {"m-poison": "dead", "m-raises": "dead"}
        until(lambda: {job.key: job.state for job in client.list("m-").jobs} == dead)
        assert (client.get("m-poison").error, client.get("m-raises").error) == ("no use", "ValueError: broken")
    assert sorted(seen) == [("again", 1), ("again", 2), ("fine", 1), ("poison", 1), ("raises", 1), ("raises", 2)]
    with pytest.raises(ClosedError):
        client.get("m-poison")


def test_pulling_continues_after_any_error(server, monkeypatch, caplog, until):
    """
    After an unexpected error of the transport, a client still pulls jobs, and reports the outcome of running attempts.
    """
    trips, is_done = {"lease": 1, "ack": 1}, threading.Event()

    def tripping(name, real):
        def ask(*arguments):
            if trips[name]:
                trips[name] -= 1
                raise ZeroDivisionError(name)
            return real(*arguments)

        return ask

    for name in trips:
        monkeypatch.setattr(RemotePulls, name, tripping(name, getattr(RemotePulls, name)))
    monkeypatch.setattr("tickwheel.remote._puller._PAUSE_S", 0.01)
    client = Scheduler(url_of(server))
    client.handler("trips")(lambda payload: is_done.set() if payload == "last" else None)
    with client:
        client.set("trips-1", delay=0, target="pull", handler="trips", retry=AT_ONCE)
        until(lambda: not trips["ack"])
        client.set("trips-2", delay=0, target="pull", handler="trips", payload="last")
        assert is_done.wait(60)
    assert trips == {"lease": 0, "ack": 0}
    said = [line.getMessage() for line in caplog.records]
    assert any("pulling for handler 'trips' failed" in each for each in said)
    assert any("could not be reported, and it will be fired again: ack" in each for each in said)


def test_a_handler_that_hangs(server, until):
    """
    If a handler of a client hangs, other handlers still have workers, and its attempt fails at its timeout.
    """
    go_on, seen, is_done = threading.Event(), [], threading.Event()
    client = Scheduler(url_of(server), options=SchedulerOptions(workers=4))

    @client.handler("hung", timeout=None)
    def hung(_payload):
        seen.append("hung")
        go_on.wait(300)

    @client.handler("late", timeout=0.2)
    def late(_payload, firing):
        firing.heartbeat()
        go_on.wait(300)
        seen.append(firing.heartbeat())

    client.handler("fine")(lambda _: is_done.set())
    with client:
        client.set_many([SetRequest(f"hung-{n}", delay=0, target="pull", handler="hung") for n in range(6)])
        until(lambda: len(seen) == 3)
        client.set("fine", delay=0, target="pull", handler="fine")
        assert is_done.wait(60)
        assert seen == ["hung"] * 3
        client.set("late", delay=0, target="pull", handler="late", retry=RetryPolicy(attempts=1))
        until(lambda: client.get("late").state == "dead")
        assert client.get("late").error == "TimeoutError: it did not end within 0.2 s"
        go_on.set()
        until(lambda: len(seen) == 7)
    assert sorted(seen, key=str) == [False, *["hung"] * 6]


def test_asyncio(server):
    """
    `AsyncScheduler` has the same verbs as coroutines, and many of them can run at the same time.

    Async handlers run on the loop of the scheduler.
    """
    ran = []

    async def main():
        is_done = asyncio.Event()
        client = AsyncScheduler(url_of(server))

        @client.handler("async")
        async def handler(payload):
            ran.append((payload, asyncio.get_running_loop()))
            is_done.set()

        async with client:
            answers = await asyncio.gather(*(client.set(f"a{n}", delay=3600, target="log") for n in range(50)))
            assert {answer.outcome for answer in answers} == {Outcome.CREATED}
            assert len(await client.drain("a")) == 50
            waiting = asyncio.ensure_future(client.lease("slow", wait=60))
            await asyncio.sleep(0.05)
            waiting.cancel()
            while client.stats()["pull"].get("slow", {"workers": 0})["workers"]:  # noqa: ASYNC110  nobody says when
                await asyncio.sleep(0.01)
            await client.set("slow", delay=0, target="pull", handler="slow")
            (lease,) = await client.lease("slow")
            await client.ack(lease.fire_id)
            await client.set("async", delay=0, target="pull", handler="async", payload=1)
            await asyncio.wait_for(is_done.wait(), 20)
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert ran == [(1, loop)]
