"""
The verbs of the Python client with three nodes behind nginx, as in `deploy/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import itertools
import signal
import time
from collections import Counter

import pytest
from processes import find

from tickwheel.cli import app
from tickwheel.scheduler import (
    AsyncScheduler,
    LeaseEndedError,
    Outcome,
    Progress,
    Schedule,
    Scheduler,
    SetRequest,
    State,
    UnsupportedError,
    task,
)

pytest.importorskip("httpx", reason="httpx is not installed: pip install 'tickwheel[client]'")

pytestmark = pytest.mark.skipif(find("nginx") is None, reason="nginx is not installed: make servers")
FAR = {"delay": 3600, "target": "log"}
SERIES = {"every": 3600, "target": "log"}


class Client:
    """
    Wraps a sync or an async scheduler, so that the tests call both in the same way.

    It records the names of the attributes that the tests use.
    """

    def __init__(self, scheduler, run, used, until):
        self._scheduler = scheduler
        self._run = run
        self._used = used
        self.until = until

    def __getattr__(self, name):
        self._used.add(name)
        found = getattr(self._scheduler, name)
        if not callable(found):
            return found

        def call(*given, **named):
            answer = found(*given, **named)
            return self._run(answer) if inspect.isawaitable(answer) else answer

        return call


def outcomes(answers):
    """
    Return the set of outcomes in *answers*.
    """
    return {answer.outcome for answer in answers}


def lease_of(client, key):
    """
    Wait for a job in the queue *key*, and return the lease of the job.
    """
    (lease,) = client.until(lambda: client.lease(key, wait=20))
    return lease


def leased(client, key):
    """
    Set a job for workers, and return the lease of the job.
    """
    client.set(key, delay=0, target="pull", handler=key)
    return lease_of(client, key)


def has_ended(client, fire_id):
    """
    Return True if the lease with the id *fire_id* can no longer be extended.
    """
    try:
        client.extend(fire_id)
    except LeaseEndedError:
        return True
    return False


def keys_of(client, key, count=3):
    """
    Set *count* jobs that are due later, and return their keys.
    """
    keys = [f"{key}/{number}" for number in range(count)]
    assert outcomes(client.set_many([SetRequest(each, **FAR) for each in keys])) == {Outcome.CREATED}
    return keys


def sets(client, key, _open):
    """
    Set, read, move, change and cancel jobs one by one.
    """
    assert client.set(key, **FAR).outcome is Outcome.CREATED
    first = client.get(key)
    assert client.move(key, delay=7200, if_generation=first.generation).outcome is Outcome.MOVED
    assert client.get(key).due_at > first.due_at
    assert client.change(key, payload={"n": 1}).outcome is Outcome.REPLACED
    assert client.explain(key).key == key
    assert client.cancel(key).outcome is Outcome.CANCELLED
    assert client.cancel(key).outcome is Outcome.NOT_FOUND
    assert client.get(key) is None


def sets_many(client, key, _open):
    """
    Set, move, find, count and cancel many jobs, with one call for all of them.
    """
    keys = keys_of(client, key)
    assert outcomes(client.move_many(keys, delay=7200)) == {Outcome.MOVED}
    assert [job.key for job in client.list(f"{key}/").jobs] == keys
    assert client.bulk("move", f"{key}/", shift=60).changed == len(keys)
    assert set(keys) <= {job.key for job in client.upcoming(limit=1000)}
    assert sum(client.forecast(time.time(), 14_400, 1)) >= len(keys)
    assert outcomes(client.cancel_many(keys)) == {Outcome.CANCELLED}
    keys_of(client, key)
    assert [job.key for job in client.drain(f"{key}/")] == keys


def pauses(client, key, _open):
    """
    Pause and resume jobs and a whole queue, and run a job now.
    """
    keys = keys_of(client, key)
    assert client.pause(keys[0], note="a reason").outcome is Outcome.PAUSED
    assert client.get(keys[0]).pause.note == "a reason"
    assert client.resume(keys[0]).outcome is Outcome.RESUMED
    assert outcomes(client.pause_many(keys)) == {Outcome.PAUSED}
    assert outcomes(client.resume_many(keys)) == {Outcome.RESUMED}
    assert client.pause_scope(f"pull:{key}").scope == f"pull:{key}"
    assert f"pull:{key}" in {pause.scope for pause in client.paused_scopes()}
    assert client.resume_scope(f"pull:{key}")
    assert client.run_now(keys[0]).outcome is Outcome.MOVED
    assert outcomes(client.cancel_many(keys[1:])) == {Outcome.CANCELLED}


def recurs(client, key, _open):
    """
    Set a recurring job, backfill it and skip its next run.
    """
    declared = client.declare([Schedule(key, **SERIES)], key)
    assert declared.outcomes == {key: Outcome.CREATED}
    assert client.declare([Schedule(key, **SERIES)], key).outcome is Outcome.UNCHANGED
    due_at = client.get(key).due_at
    assert client.skip(key).job.due_at == due_at + 3_600_000
    now = time.time()
    assert client.backfill(key, now - 7_200, now, dry_run=True).runs == 2
    assert client.declare([], key, allow_empty=True).outcomes == {key: Outcome.CANCELLED}


def works(client, key, _open):
    """
    Extend, acknowledge, reject and release leases.

    For a lease that has ended, each call raises a `LeaseEndedError`.
    """
    first = leased(client, key)
    assert client.extend(first.fire_id, 120, progress=0.5, note="half") > first.until
    client.until(lambda: client.progress(key) == Progress(0.5, "half"))
    client.release(first.fire_id)
    again = lease_of(client, key)
    client.nack(again.fire_id, delay=0, error="cold")
    last = lease_of(client, key)
    client.ack(last.fire_id)
    assert [lease.attempt for lease in (first, again, last)] == [1, 1, 2]
    assert [record.error for record in client.history(key)] == ["cold", None]
    with pytest.raises(LeaseEndedError):
        client.ack(again.fire_id)
    assert client.get(key) is None


def stops(client, key, _open):
    """
    Cancel a running job, so that its worker is asked to stop.
    """
    lease = leased(client, key)
    assert client.cancel(key).outcome is Outcome.TOO_LATE
    assert client.cancel(key, running=True).outcome is Outcome.STOPPING
    client.until(lambda: has_ended(client, lease.fire_id))
    with pytest.raises(LeaseEndedError):
        client.ack(lease.fire_id)
    client.until(lambda: client.get(key) is None)


def dies(client, key, _open):
    """
    Make a job a dead letter, find it and replay it.
    """
    client.nack(leased(client, key).fire_id, is_dead=True, error="broken")
    assert client.get(key).state is State.DEAD
    assert client.incidents(prefix=key).looked_at == 1
    assert client.replay(key).outcome is Outcome.REPLAYED
    client.nack(lease_of(client, key).fire_id, is_dead=True)
    assert outcomes(client.replay_many([key])) == {Outcome.REPLAYED}
    client.ack(lease_of(client, key).fire_id)
    assert client.get(key) is None


def looks(client, _key, _open):
    """
    Read figures, shards and nodes. Check that a client refuses the verbs of a node.
    """
    assert client.stats()["owner"] in {node.owner for node in client.nodes()}
    assert [shard.number for shard in client.shards()] == list(range(6))
    for refused in (lambda: client.subscribe(print), client.recent, lambda: client.advertise("http://a", "s")):
        with pytest.raises(UnsupportedError):
            refused()


def handles(_client, key, open_client):
    """
    Run handlers and tasks on a separate client, each job once.
    """
    ran, around = Counter(), []

    def count(number: int) -> None:
        ran[number] += 1

    second, third = task(name=f"{key}-2")(count), task(name=f"{key}-3")(count)
    with open_client() as own:
        own.handler(key)(count)
        first = own.task(name=f"{key}-1")(count)
        own.register(second)
        own.register_within(third, lambda function: function)
        own.middleware(lambda firing: contextlib.nullcontext(around.append(firing.job.key)))
        assert own.has_handler(key)
        assert not own.is_started
        own.set(f"{key}/far", first.of(9), delay=3600, target="pull")
        assert [job.key for job in own.jobs_of(first)] == [f"{key}/far"]
        own.cancel(f"{key}/far")
        own.start()
        assert own.is_started
        assert own.is_ready
        own.set(f"{key}/0", delay=0, target="pull", handler=key, payload=0)
        for number, each in enumerate((first, second, third), 1):
            own.set(f"{key}/{number}", each.of(number), delay=0, target="pull")
        own.until(lambda: not own.list(f"{key}/").jobs)
        assert own.stop() == []
    assert (ran, sorted(around)) == (Counter(range(4)), [f"{key}/{number}" for number in range(4)])


STEPS = (sets, sets_many, pauses, recurs, works, stops, dies, looks, handles)


@pytest.fixture
def url(proxy, monkeypatch):
    """
    Return the address of nginx.

    The certificate and the token are in the environment.
    """
    monkeypatch.setenv("SSL_CERT_FILE", proxy.cert)
    monkeypatch.setenv("TICKWHEEL_TOKEN", proxy.token)
    return proxy.url


@pytest.fixture
def opened(url, until):
    """
    Return a function that opens a client, and the set of attributes that the tests have used so far.
    """
    used = set()

    async def awaited(answer):
        return await answer

    @contextlib.contextmanager
    def open_client(kind):
        with asyncio.Runner() as runner:
            client = Client(kind(url), lambda answer: runner.run(awaited(answer)), used, until)
            with contextlib.closing(client):
                yield client

    return open_client, used


@pytest.fixture
def carried(url, capsys, tmp_path):
    """
    Return a function that exports, cancels and imports a job on the command line.
    """
    file = tmp_path / "jobs.jsonl"

    def run(*command):
        assert app.run([*command, "--store", url]) == 0
        return capsys.readouterr().out

    def carry(key):
        run("set", key, "--delay", "1h", *("--target", "log"))
        file.write_text(run("export", key), "utf-8")
        run("cancel", key)
        run("import", "jsonl", str(file))
        run("cancel", key)

    return carry


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "kill"])
def test_every_verb_at_every_node(nodes, start_node, opened, carried, fault):
    """
    Each verb has the same result as with a single node, even while a node is killed and restarted.
    """
    open_client, used = opened
    kinds = (Scheduler, AsyncScheduler)
    ran, doubtful = Counter(), set()
    with contextlib.ExitStack() as stack:
        clients = {kind: stack.enter_context(open_client(kind)) for kind in kinds}
        steady = stack.enter_context(open_client(Scheduler))
        steady.handler("steady", concurrency=1)(lambda name: ran.update([name]))
        steady.start()
        for turn in range(3):
            if fault == "kill" and turn == 1:
                doubtful = {job.payload for job in steady.list("steady/").jobs}
                nodes[0].stop(signal.SIGKILL)
            if fault == "kill" and turn == 2:
                start_node("a", nodes[0].port)
            for (kind, client), step in itertools.product(clients.items(), STEPS):
                for _ in range(turn):
                    client.get("nothing")  # one more request, so that the next ones reach other nodes
                name = f"{step.__name__}-{kind.__name__}-{turn}"
                steady.set(f"steady/{name}", delay=0, target="pull", handler="steady", payload=name)
                step(client, name, functools.partial(open_client, kind))
            carried(f"file-{turn}")
        steady.until(lambda: not steady.list("steady/").jobs)
        assert steady.list(state=State.DEAD).jobs == ()
    assert len(ran) == 3 * len(kinds) * len(STEPS)
    assert {name for name, count in ran.items() if count > 1} <= doubtful
    verbs = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}
    assert verbs - used == set(), "no step calls it"
