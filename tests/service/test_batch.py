"""
Batches, cancels by prefix, and idempotency keys.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest
from httpx import ASGITransport, AsyncClient
from hypothesis import given
from hypothesis.strategies import integers

pytest.importorskip("msgspec", reason="the service extra is not installed")

from tickwheel.scheduler import AsyncScheduler, SetRequest
from tickwheel.service import ServiceOptions, idempotency
from tickwheel.service.app import Service
from tickwheel.service.batch import Batches
from tickwheel.service.bodies import SetBody, SetItem
from tickwheel.service.documents import instant
from tickwheel.service.http import Reply, Request
from tickwheel.stores import make_store
from tickwheel.testing.faulty_store import FaultyStore

FAR = {"do": "set", "delay": 3600, "target": "log"}


def instant_of(text: str) -> datetime:
    """
    Return the instant that the API has written as *text*.
    """
    return datetime.fromisoformat(text)


def batch(server, items, headers=None):
    return server.ask("POST", "/v1/jobs:batch", {"items": items}, headers)


def test_each_item_has_its_result(server):
    """
    The items of a batch set, move and cancel jobs, in the order of the items.

    If an item is refused, its result has the reason, and the other items are still executed.
    """
    answer = batch(
        server,
        [
            FAR | {"key": "one"},
            FAR | {"key": "two", "handler": "nobody", "target": "handler"},
            FAR | {"key": "k" * 600},
            FAR | {"key": "three", "delay": 1e9, "if_generation": 5},
            {"do": "move", "key": "one", "delay": 7200},
            {"do": "move", "key": "none", "delay": 1},
            {"do": "cancel", "key": "one"},
            {"do": "move", "key": "one", "delay": 1},
        ],
    )
    assert answer.status == 200
    results = answer.json["results"]
    assert [(result["status"], result["outcome"]) for result in results] == [
        (201, "created"),
        (422, "refused"),
        (422, "refused"),
        (412, "refused"),
        (200, "moved"),
        (404, "refused"),
        (200, "cancelled"),
        (404, "refused"),
    ]
    assert results[1]["problem"]["type"] == "/problems/unknown_handler"
    assert "the limit is 512" in results[2]["problem"]["detail"]
    assert server.ask("GET", "/v1/jobs?prefix=t").json["jobs"] == []


def test_an_item_and_a_put_are_converted_alike(monkeypatch):
    """
    The body of a PUT and an item of a batch are converted to a job in the same way.
    """

    async def main():
        scheduler = AsyncScheduler("memory://")
        await scheduler.start()
        app = ASGITransport(app=Service(scheduler, ServiceOptions()))
        async with AsyncClient(transport=app, base_url="http://127.0.0.1:8765") as client:
            await client.put("/v1/jobs/put", json={"delay": 3600, "target": "log", "payload": 1})
            await client.post("/v1/jobs:batch", json={"items": [FAR | {"key": "item", "payload": 2}]})
        jobs = [await scheduler.get(key) for key in ("put", "item")]
        await scheduler.stop()
        return [job.payload for job in jobs]

    convert = SetBody.fields
    monkeypatch.setattr(SetBody, "fields", lambda body: convert(body) | {"payload": ["converted", body.payload]})
    assert asyncio.run(main()) == [b'["converted",1]', b'["converted",2]']


def test_each_field_of_an_item_reaches_its_request():
    """
    An item of a batch can set every field of a request except `call`.
    """
    item, request = SetItem(key="k", delay=1.0), SetRequest("k", delay=1.0)
    assert SetRequest(**item.fields()) == request
    assert set(item.__struct_fields__) == {field.name for field in fields(SetRequest)} - {"call"}
    assert len(item.__struct_defaults__) == len(item.__struct_fields__)


def test_every_field_of_an_item_counts(server):
    """
    All fields of an item are stored, not only key and due time.

    This holds with and without a retry policy.
    """
    rest = {"payload": {"a": [1]}, "expires": 60.0, "trace": f"00-{'a' * 32}-{'b' * 16}-01", "jitter": 0.0}
    policy = {"attempts": 3, "kind": "linear", "base_s": 2.0, "max_s": 60.0, "jitter": 0.0}
    items = [FAR | rest | {"key": "usual"}, FAR | rest | {"key": "own", "retry": policy}]
    items.append({"do": "set", "target": "log", "key": "often", "cron": "0 9 * * *", "tz": "Europe/Berlin"})
    assert {result["status"] for result in batch(server, items).json["results"]} == {201}
    for key, attempts in (("usual", 5), ("own", 3)):
        job = server.ask("GET", f"/v1/jobs/{key}").json
        assert (job["payload"], job["trace"], job["retry"]["attempts"]) == ({"a": [1]}, rest["trace"], attempts)
        assert instant_of(job["expires_at"]) - instant_of(job["due_at"]) == timedelta(seconds=60)
    assert server.ask("GET", "/v1/jobs/often").json["recurrence"]["tz"] == "Europe/Berlin"


@given(ms=integers(0, (1 << 33) * 1000))
def test_instants_are_exact(ms):
    """
    Instants in answers are exact to the millisecond, even a hundred years ahead.
    """
    assert instant(ms) == datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def test_ten_thousand(server):
    """
    A batch of ten thousand items is accepted, and its jobs can then be cancelled by their prefix.
    """
    results = batch(server, [FAR | {"key": f"many/{n:05}"} for n in range(10_000)]).json["results"]
    assert [result["key"] for result in results] == [f"many/{n:05}" for n in range(10_000)]
    assert {result["status"] for result in results} == {201}
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "many/"}).json["changed"] == 10_000
    assert server.ask("GET", "/v1/jobs?prefix=many/").json["jobs"] == []


def test_a_bulk_change_in_parts(server):
    """
    A dry run counts the jobs of a bulk change, which is then made in parts.

    The answer to each part has the cursor of the next part. If all parts are sent again, nothing changes.
    """
    batch(server, [FAR | {"key": f"late/{n}", "handler": f"h{n % 2}", "target": "pull"} for n in range(6)])
    due = due_at(server, "late/1")
    body = {"do": "move", "prefix": "late/", "handler": "h1", "shift": "1h"}
    dry = server.ask("POST", "/v1/jobs:bulk", body | {"dry_run": True}).json
    assert (dry["matched"], dry["changed"], due_at(server, "late/1")) == (3, 0, due)
    for _ in range(2):
        cursor, matched = dry["start"], 0
        while cursor is not None:
            answer = server.ask("POST", "/v1/jobs:bulk", body | {"limit": 2, "cursor": cursor}).json
            cursor, matched = answer["cursor"], matched + answer["matched"]
    assert matched == 0
    assert due_at(server, "late/1") == due + timedelta(hours=1)
    paused = server.ask("POST", "/v1/jobs:bulk", {"do": "pause", "contains": "ate/", "note": "why"}).json
    assert (paused["matched"], paused["changed"], paused["refused"], paused["cursor"]) == (6, 6, 0, None)
    assert server.job("GET", "late/0").json["pause"]["note"] == "why"
    assert len(server.ask("GET", "/v1/jobs?contains=ate%2F&target=pull&handler=h0").json["jobs"]) == 3


def test_a_bulk_change_lists_its_changes(server):
    """
    On request the answer lists the changed jobs with their former due times and new generations.
    """
    batch(server, [FAR | {"key": f"undo/{n}"} for n in range(3)])
    before = {f"undo/{n}": server.job("GET", f"undo/{n}").json for n in range(3)}
    body = {"do": "move", "prefix": "undo/", "shift": "1h"}
    assert server.ask("POST", "/v1/jobs:bulk", body | {"dry_run": True, "changes": True}).json["changes"] == []
    changes = server.ask("POST", "/v1/jobs:bulk", body | {"changes": True}).json["changes"]
    assert {each["key"]: each["was_due_at"] for each in changes} == {key: job["due_at"] for key, job in before.items()}
    assert {each["key"]: each["generation"] for each in changes} == {
        key: server.job("GET", key).json["generation"] for key in before
    }
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "pause", "prefix": "undo/"}).json["changes"] == []
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "cancel", "prefix": "undo/"}).json["changed"] == 3


def test_a_bulk_change_of_running_jobs(server):
    """
    On request, a bulk change or an item of a batch also stops running jobs, which the answer counts separately.
    """
    pending = {"do": "set", "delay": 0, "target": "pull", "handler": "stopped in bulk"}
    batch(server, [pending | {"key": f"runs/{n}"} for n in range(4)])
    body = {"queue": "stopped in bulk"}
    leases = [server.ask("POST", "/v1/pull:lease", body).json["leases"][0] for _ in range(4)]
    body = {"do": "cancel", "prefix": "runs/", "contains": "/0"}
    assert server.ask("POST", "/v1/jobs:bulk", body).json["matched"] == 0
    dry = server.ask("POST", "/v1/jobs:bulk", body | {"running": True, "dry_run": True}).json
    assert (dry["matched"], dry["changed"], dry["stopping"]) == (1, 0, 0)
    done = server.ask("POST", "/v1/jobs:bulk", body | {"running": True, "cursor": dry["start"]}).json
    assert (done["matched"], done["changed"], done["refused"], done["stopping"]) == (1, 1, 0, 1)
    items = [{"do": "cancel", "key": "runs/1", "running": running} for running in (False, True)]
    results = server.ask("POST", "/v1/jobs:batch", {"items": items}).json["results"]
    assert [result["outcome"] for result in results] == ["refused", "stopping"]
    acks = {lease["job"]["key"]: server.ask("POST", "/v1/pull:ack", {"fire_id": lease["fire_id"]}) for lease in leases}
    statuses = {key: ack.status for key, ack in acks.items()}
    assert statuses == {"runs/0": 409, "runs/1": 409, "runs/2": 200, "runs/3": 200}


def due_at(server, key):
    return instant_of(server.job("GET", key).json["due_at"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"items": {}}, 422),
        ({"items": [{"key": "a"}]}, 422),
        ({"items": [{"do": "explode", "key": "a"}]}, 422),
        ({"items": [FAR]}, 422),
        ({"items": [FAR | {"key": "a", "surprise": 1}]}, 422),
        ({"items": [FAR | {"key": "a", "if_generation": -1}]}, 422),
        ({"items": [FAR | {"key": "a"}] * 10_001}, 422),
    ],
)
def test_unreadable_batches(server, body, status):
    """
    If a batch cannot be read, all of it is refused, and none of its items is executed.
    """
    assert server.ask("POST", "/v1/jobs:batch", body).status == status
    assert server.job("GET", "a").status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prefix": ""},
        {"prefix": 5},
        {"prefix": "a\0"},
        {"prefix": "k" * 513},
        {"do": "move", "prefix": "s"},
        {"prefix": "s", "shift": 5},
        {"running": True},
        {"do": "pause", "prefix": "s", "running": True},
        {"prefix": "s", "cursor": "stays"},
        {"prefix": "s", "surprise": 1},
        {"paused": False},
    ],
)
def test_invalid_bulk_changes(server, body):
    """
    A bulk change is refused if its filter is missing or invalid, or if a field does not fit the change.

    No job is changed.
    """
    server.job("PUT", "stays", {"delay": 3600, "target": "log"})
    assert server.ask("POST", "/v1/jobs:bulk", {"do": "cancel"} | body).status == 422
    assert server.job("DELETE", "stays").status == 200


def test_the_same_request_is_done_once(server):
    """
    If a request is repeated with its idempotency key, it is not executed again, and gets the first answer.
    """
    body = {"delay": 3600, "target": "log"}
    first = server.job("PUT", "once", body, {"idempotency-key": "put-1"})
    again = server.job("PUT", "once", body, {"idempotency-key": "put-1"})
    assert (first.status, first.body, first.headers["etag"]) == (again.status, again.body, again.headers["etag"])
    assert server.job("GET", "once").json["generation"] == first.json["job"]["generation"]
    server.job("DELETE", "once", None, {"idempotency-key": "delete-1"})
    assert server.job("DELETE", "once", None, {"idempotency-key": "delete-1"}).json["outcome"] == "cancelled"
    assert server.job("DELETE", "once").status == 404
    refused = server.job("PATCH", "once", {"delay": 1}, {"idempotency-key": "patch-1"})
    server.job("PUT", "once", body)
    assert server.job("PATCH", "once", {"delay": 1}, {"idempotency-key": "patch-1"}).body == refused.body
    server.job("DELETE", "once")


def test_another_request_with_the_same_key(server):
    """
    If an idempotency key is used again with a different body, method, address or precondition, the request is refused.
    """
    body = {"delay": 3600, "target": "log"}
    first = server.job("PUT", "reused", body, {"idempotency-key": "reused"})
    others = [
        ("PUT", "reused", body | {"delay": 1}, {}),
        ("PUT", "reused", body, {"if-match": first.headers["etag"]}),
        ("PUT", "reused", body, {"if-match": ""}),
        ("PUT", "else", body, {}),
        ("DELETE", "reused", None, {}),
    ]
    for method, key, other, headers in others:
        answer = server.job(method, key, other, headers | {"idempotency-key": "reused"})
        assert (answer.status, answer.json["type"]) == (422, "/problems/idempotency_key_reused")
    server.job("DELETE", "reused")


def test_idempotency_keys_count_towards_the_memory_limit(monkeypatch):
    """
    Idempotency keys count towards the memory limit for stored answers.

    If this limit is exceeded, old answers are dropped.
    """
    monkeypatch.setattr(idempotency, "_BYTES_MAX", 64 << 10)
    keys = idempotency.IdempotencyKeys(1_000)
    scope = {"method": "PUT", "path": "/", "raw_path": b"/", "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def run(_call):
        return Reply(204, b"", b"")

    async def main():
        for number in range(200):
            await keys.reply(Request(scope | {"headers": [(b"idempotency-key", b"%d" % number)]}, receive), run)

    asyncio.run(main())
    assert 50 < len(keys._kept) < 70


def test_answers_kept_during_a_long_request(monkeypatch):
    """
    While a long request is in progress, stored answers of other requests can be dropped to free memory.
    """
    monkeypatch.setattr(idempotency, "_BYTES_MAX", 64 << 10)
    keys = idempotency.IdempotencyKeys(1_000)
    scope = {"method": "PUT", "path": "/", "raw_path": b"/", "query_string": b""}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def main():
        go_on = asyncio.Event()

        async def run(call):
            if call.header(b"idempotency-key") == "slow":
                await go_on.wait()
            return Reply(204, b"", b"")

        def ask(key):
            return keys.reply(Request(scope | {"headers": [(b"idempotency-key", key)]}, receive), run)

        slow = asyncio.create_task(ask(b"slow"))
        await asyncio.sleep(0)  # the request begins
        for number in range(200):
            await ask(b"%d" % number)
        assert len(keys._kept) < 70
        again = asyncio.create_task(ask(b"slow"))
        await asyncio.sleep(0)
        go_on.set()
        assert await slow is await again

    asyncio.run(main())


def test_a_commit_with_an_unknown_outcome():
    """
    If the outcome of a commit is unknown, a batch does not write its items again. Each item gets a 503.
    """

    async def main():
        store = FaultyStore(make_store("memory://"))
        scheduler = AsyncScheduler(store)
        await scheduler.set("first", delay=3600, target="log")
        store.fail("apply", 10, after=True, is_transient=False, is_unknown=True)
        batches = Batches(scheduler, ServiceOptions(), None)
        items = [SetItem(key=f"k{number}", delay=3600, target="log") for number in range(3)]
        results = await batches._set_all(items, "me", with_jobs=False)
        assert [(result.status, result.problem["is_unknown"]) for result in results] == [(503, True)] * 3
        assert store.calls.count("apply") == 2
        await scheduler.stop()

    asyncio.run(main())


def test_a_request_that_was_cut_off(server, until):
    """
    If a request is cut off while an equal request waits for the same answer, the waiting request is still answered.
    """
    body = b'{"queue": "cut off", "wait": 5}'
    head = b"POST /v1/pull:lease HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nIdempotency-Key: cut\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    first, second = (socket.create_connection((server.host, server.port), timeout=30) for _ in range(2))
    with second:
        with first:
            first.sendall(head + body)
            until(lambda: b'"cut off"' in server.ask("GET", "/v1/stats").body)
            second.sendall(head + body)
        answer = b"".join(iter(lambda: second.recv(65_536), b""))
    # the status depends on whether the first request had ended when this one arrived
    assert answer.startswith((b"HTTP/1.1 503", b"HTTP/1.1 200"))


def test_the_same_request_at_the_same_time(server):
    """
    If equal requests arrive together, one of them is executed, and all get its answer.
    """
    answers = []

    def send():
        answers.append(server.job("PUT", "together", {"delay": 3600, "target": "log"}, {"idempotency-key": "together"}))

    senders = [threading.Thread(target=send) for _ in range(16)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert {(answer.status, answer.body) for answer in answers} == {(201, answers[0].body)}
    server.job("DELETE", "together")


@pytest.mark.parametrize("key", ["", "k" * 201, "a b", "caf\u00e9"])
def test_invalid_idempotency_keys(server, key):
    """
    An idempotency key is refused if it is empty, too long or not visible ASCII.
    """
    answer = server.job("PUT", "never", {"delay": 3600, "target": "log"}, {"idempotency-key": key})
    assert (answer.status, answer.json["type"]) == (400, "/problems/malformed_request")
    assert server.job("GET", "never").status == 404
