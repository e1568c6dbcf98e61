"""
If a request is repeated with its idempotency key at any node, it is not executed again, and gets the first answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging

import pytest

pytest.importorskip("msgspec", reason="the service extra is not installed")
from tickwheel.scheduler import AsyncScheduler, StoreError
from tickwheel.service import ServiceOptions, idempotency
from tickwheel.service.app import Service
from tickwheel.stores import Abilities, make_store

HOUR = {"delay": 3600, "target": "log"}
SERIES = {"every": 3600, "target": "log"}
BATCH = {
    "items": [
        {"do": "set", "key": "a", **HOUR},
        {"do": "set", "key": "b", **HOUR, "payload": [1]},
        {"do": "cancel", "key": "k"},
        {"do": "move", "key": "none", "delay": 5},
        {"do": "set", "key": "a", **HOUR},
    ],
    "with_jobs": True,
}
REQUESTS = [
    ("PUT", "/v1/jobs/new", HOUR),
    ("PUT", "/v1/jobs/k", HOUR | {"payload": {"n": "\u00e4"}}),
    ("PATCH", "/v1/jobs/k", {"delay": 5000}),
    ("PATCH", "/v1/jobs/none", {"delay": 5000}),
    ("DELETE", "/v1/jobs/k", None),
    ("POST", "/v1/jobs/k:pause", {"note": "why"}),
    ("POST", "/v1/jobs/k:resume", None),
    ("POST", "/v1/jobs/k:run", None),
    ("POST", "/v1/jobs/k:replay", None),
    ("POST", "/v1/jobs/series:skip", None),
    ("POST", "/v1/jobs/k:change", {"payload": 5}),
    ("POST", "/v1/jobs:batch", BATCH),
    ("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "bulk/"}),
    ("POST", "/v1/jobs:bulk", {"do": "move", "shift": 60, "prefix": "bulk/"}),
    ("POST", "/v1/schedules/series:backfill", {"since": "2020-01-01T00:00:00Z", "until": "2020-01-01T05:00:00Z"}),
    ("PUT", "/v1/manifests/m", {"jobs": [{"key": "m/1", **SERIES}]}),
    ("POST", "/v1/scopes:pause", {"scope": "log"}),
    ("POST", "/v1/scopes:resume", {"scope": "log"}),
]
"""Requests for all operations that write jobs."""


async def ask(service, method, path, body=None, key=None):
    data = b"" if body is None else json.dumps(body).encode()
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [] if key is None else [(b"idempotency-key", key.encode())]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "root_path": ""}
    sent = []

    async def receive():
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message):
        sent.append(message)

    await service(scope, receive, send)
    tag = dict(sent[0]["headers"]).get(b"etag")
    return sent[0]["status"], tag, json.loads(b"".join(part.get("body", b"") for part in sent[1:]))


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis", "partitions"])
def make(request, tmp_path):
    """
    Return a function that makes a scheduler for another node on the same store.

    With a store in memory, it always returns the same scheduler.
    """
    kind = request.param
    if kind == "memory":
        only = AsyncScheduler("memory://")
        return lambda: only
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path / 'jobs.db'}"
    elif kind == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        more = "&partitions=3" if kind == "partitions" else ""
        url = request.getfixturevalue("redis_server").empty_url(more)
    return lambda: AsyncScheduler(url)


@contextlib.asynccontextmanager
async def services(*schedulers):
    """
    Serve each of *schedulers*, and stop the services at the end.
    """
    try:
        yield [Service(scheduler, ServiceOptions()) for scheduler in schedulers]
    finally:
        for scheduler in set(schedulers):
            await scheduler.stop()


async def prepare(service):
    """
    Set the jobs that the requests refer to.
    """
    for key in ("k", "bulk/1", "bulk/2", "bulk/3"):
        assert (await ask(service, "PUT", f"/v1/jobs/{key.replace('/', '%2F')}", HOUR))[0] in {200, 201}
    assert (await ask(service, "PUT", "/v1/jobs/series", SERIES))[0] in {200, 201}


async def jobs_of(service):
    return (await ask(service, "GET", "/v1/jobs"))[2]["jobs"]


def test_each_request_repeated_at_another_node(make):
    """
    If a request is repeated at another node or after a restart, the repeat changes nothing and gets the first answer.
    """

    async def main():
        async with services(make(), make(), make()) as (first, second, third):
            for number, (method, path, body) in enumerate(REQUESTS):
                await prepare(first)
                one = await ask(first, method, path, body, f"key{number}")
                assert one[0] in {200, 201} or path.endswith(("none", "replay")), (path, one)
                left = await jobs_of(first)
                for other in (second, third, first):
                    assert await ask(other, method, path, body, f"key{number}") == one, path
                assert await jobs_of(third) == left, path

    asyncio.run(main())


def test_a_request_at_two_nodes_at_once(make):
    """
    If equal requests reach two nodes at the same moment, one request is executed, and both get its answer.
    """

    async def main():
        async with services(make(), make()) as pair:
            for number, (method, path, body) in enumerate(REQUESTS):
                await prepare(pair[0])
                both = [ask(service, method, path, body, f"key{number}") for service in (*pair, *pair)]
                found = await asyncio.gather(*both)
                assert all(each == found[0] for each in found), (path, found)

    asyncio.run(main())


def test_another_request_at_another_node(make):
    """
    If an idempotency key is used again for a different request, every node refuses this request.
    """

    async def main():
        async with services(make(), make()) as (first, second):
            await prepare(first)
            done = await ask(first, "PUT", "/v1/jobs/k", HOUR, "key")
            left = await jobs_of(first)
            others = [
                ("PUT", "/v1/jobs/k", HOUR | {"delay": 5}),
                *(("PUT", f"/v1/jobs/other{number}", HOUR) for number in range(4)),
                ("DELETE", "/v1/jobs/k", None),
                ("POST", "/v1/jobs:batch", BATCH),
                ("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "bulk/"}),
            ]
            for other in others:
                status, _, document = await ask(second, *other, "key")
                assert (status, document["type"]) == (422, "/problems/idempotency_key_reused"), other
            assert await jobs_of(second) == left
            assert await ask(second, "PUT", "/v1/jobs/k", HOUR, "key") == done

    asyncio.run(main())


class DoomedStore:
    """
    A store whose node dies after a given number of commits. The answer to the last commit is lost.
    """

    def __init__(self, store):
        self._store, self.left = store, None

    def __getattr__(self, name):
        return getattr(self._store, name)

    def apply(self, writes):
        """
        Apply *writes* if the node still runs.
        """
        if self.left is None:
            return self._store.apply(writes)
        self.left -= 1
        if self.left == 0:
            self._store.apply(writes)
        if self.left <= 0:
            what = "the process ended"
            raise StoreError(what, "start it again", is_unknown=True)
        return self._store.apply(writes)


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_a_crash_after_each_commit(monkeypatch, tmp_path, commits):
    """
    If a node dies between two commits of a request, another node completes the request and gives the same answer.
    """
    monkeypatch.setattr(idempotency, "_CLAIM_MS", 0)  # the claim of a dead node expires at once
    url, other_url = (f"sqlite:///{tmp_path / name}?synchronous=normal" for name in ("jobs.db", "undisturbed.db"))

    async def main():
        undisturbed = make_store(other_url)
        async with services(*map(AsyncScheduler, (url, url, undisturbed))) as (heir, last, whole):
            for number, (method, path, body) in enumerate(REQUESTS):
                for service in (heir, whole):
                    await prepare(service)
                asked = (method, path, body, f"key{number}")
                expected = await ask(whole, *asked)
                store = DoomedStore(make_store(url))
                async with services(AsyncScheduler(store)) as (doomed,):
                    await jobs_of(doomed)  # opens the store
                    store.left = commits
                    cut_off = await ask(doomed, *asked)
                    answer = await ask(heir, *asked)
                    assert answer[:2] == expected[:2], (path, answer, expected)
                    assert await ask(last, *asked) == answer, path
                    assert cut_off == answer or "the process ended" in json.dumps(cut_off[2]), path
                    assert store.last_generation() == undisturbed.last_generation(), path

    asyncio.run(main())


def test_a_store_that_keeps_no_answers(caplog):
    """
    If a store cannot keep answers, the service logs this, and idempotency keys work only within the process.
    """

    class Bare:
        """
        A third-party store that does not support idempotency keys.
        """

        def __init__(self, store):
            self._store, self.abilities = store, Abilities(is_private=True)

        def __getattr__(self, name):
            return getattr(self._store, name)

        def apply(self, writes):
            assert not any(getattr(write, "once", None) for write in writes)
            return self._store.apply(writes)

    async def main():
        async with services(AsyncScheduler(Bare(make_store("memory://")))) as (service,):
            first = await ask(service, "PUT", "/v1/jobs/k", HOUR, "key")
            assert await ask(service, "PUT", "/v1/jobs/k", HOUR, "key") == first
            assert (await ask(service, "POST", "/v1/jobs:batch", BATCH, "batch"))[0] == 200

    with caplog.at_level(logging.WARNING, "tickwheel.service"):
        asyncio.run(main())
    assert "keeps no answers: an Idempotency-Key holds for this process alone" in caplog.text
