"""
Large bodies are decoded in a thread, item by item, with the same result as small bodies.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

msgspec = pytest.importorskip("msgspec", reason="the service extra is not installed")

from tickwheel.jobs.checks import DEPTH_MAX, PAYLOAD_BYTES_MAX, EncodedPayload  # noqa: E402 only where it is installed
from tickwheel.jobs.errors import InvalidJobError  # noqa: E402 only where it is installed
from tickwheel.service import idempotency, list_body  # noqa: E402 only where it is installed
from tickwheel.service.bodies import (  # noqa: E402 only where it is installed
    BatchBody,
    BatchOutline,
    Item,
    ManifestBody,
    ManifestOutline,
    ScheduleItem,
)
from tickwheel.service.http import Request  # noqa: E402 only where it is installed
from tickwheel.service.list_body import ListBody  # noqa: E402 only where it is installed
from tickwheel.service.problems import ProblemError, show  # noqa: E402 only where it is installed
from tickwheel.service.strict_json import LEVELS_MAX, decode, decoded  # noqa: E402 only where it is installed

BATCH = ListBody(BatchBody, BatchOutline, Item, "items")
MANIFEST = ListBody(ManifestBody, ManifestOutline, ScheduleItem, "jobs")
ITEM_MAX = 1 << 20
PAD = b" " * 70_000
"""Padding that makes a body large enough to be decoded in a thread."""


def item(number: int, **fields: Any) -> dict[str, Any]:
    return {"do": "set", "key": f"key {number}", "delay": 3600, "payload": {"a\n": [number, '"']}} | fields


def read(body: bytes, decoder: ListBody[Any] = BATCH, *, is_packed: bool = False) -> Any:
    return asyncio.run(decoder.decoded(body, ITEM_MAX, is_packed=is_packed))


@pytest.mark.parametrize("encode", [msgspec.json.encode, msgspec.msgpack.encode])
@pytest.mark.parametrize("more", [{}, {"with_jobs": True}, {"with_jobs": False, "refuse_all": False}])
def test_a_large_batch_equals_a_small_one(encode, more):
    """
    A large batch is decoded to the same items as a small batch.
    """
    is_packed = encode is msgspec.msgpack.encode
    items = [item(0), {"do": "cancel", "key": "a"}, {"do": "move", "key": "b", "delay": 1}]
    small = read(encode({"items": items} | more), is_packed=is_packed)
    large = read(encode({"items": items * 2_000} | more), is_packed=is_packed)
    assert (large.with_jobs, large.refuse_all) == (small.with_jobs, small.refuse_all)
    assert large.items[1:3] == small.items[1:3]
    assert len(large.items) == 6_000
    (first, *_), (other, *_) = large.items, small.items
    assert first.payload.data() == EncodedPayload(other.payload).data()
    assert msgspec.structs.replace(first, payload=None) == msgspec.structs.replace(other, payload=None)


def test_a_large_manifest_equals_a_small_one():
    """
    A large manifest gives the same jobs as a small manifest.
    """
    jobs = [{"key": "a", "every": 60}, {"key": "b", "cron": "@daily", "tz": "UTC"}]
    body = msgspec.json.encode({"jobs": jobs, "revision": 5, "dry_run": True})
    assert read(body + PAD, MANIFEST) == read(body, MANIFEST)


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"delay": "x" * 200}, "items[3].delay is"),
        ({"delay": None}, "items[3].delay is null: expected"),
        ({"surprise": 1}, "items[3] is"),
        ({"retry": {"kind": "none"}}, "items[3].retry.kind is 'none'"),
    ],
)
def test_a_bad_item_is_named(fields, detail):
    """
    The error names the position of the faulty item, in a large batch and in a small one.
    """
    items = [item(0), item(1), item(2), item(3, **fields)]
    for pad in (b"", PAD):
        with pytest.raises(ProblemError) as caught:
            read(msgspec.json.encode({"items": items}) + pad)
        assert detail in caught.value.detail
        assert caught.value.kind.name == "invalid_value"


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":[],"items":[]}',
        b'{"items":[],"\\u0069tems":[]}',
        b'{"with_jobs":true,"items":[],"with_jobs":true}',
        b'{"items":[{"do":"cancel","key":"a","key":"b"}]}',
        b'{"items":[{"do":"set","key":"a","delay":1,"payload":[{"b":1,"\\u0062":2}]}]}',
        b'{"items":[{"do":"cancel","key":"\xff"}]}',
        b'{"items":[{"do":"cancel","key":"\\ud800"}]}',
        b'{"items":[{"do":"cancel","key":"a"}',
        b'{"items":[' + b"[" * LEVELS_MAX + b"]" * LEVELS_MAX + b"]}",
        b'{"items":[' + b'{"a":' * LEVELS_MAX,
    ],
)
def test_a_malformed_batch(body):
    """
    A body that repeats a name in an object, or is not strict JSON otherwise, is refused.
    """
    for pad in (b"", PAD):
        with pytest.raises(ProblemError) as caught:
            read(body + pad)
        assert caught.value.kind.name == "malformed_json"


def test_names_that_are_not_repeated():
    """
    Names that are written with escapes, and fields with their default value, are not mistaken for repeated names.
    """
    body = b'{"refuse_all":false,"\\u0069tems":[{"do":"set","key":"\\"","delay":1,"tz":"UTC"}],"with_jobs":false}'
    assert read(body + PAD) == read(body)


@pytest.mark.parametrize("encode", [msgspec.json.encode, msgspec.msgpack.encode])
def test_an_item_that_is_too_large(encode):
    """
    An item of a batch may be as large as a request for a single job. A larger item is refused without being decoded.
    """
    body = encode({"items": [item(0), item(1, payload="x" * ITEM_MAX)]})
    with pytest.raises(ProblemError, match=r"items\[1\] has more than 1048576 bytes") as caught:
        read(body, is_packed=encode is msgspec.msgpack.encode)
    assert caught.value.kind.name == "too_large"


def test_large_bodies_leave_the_loop(monkeypatch):
    """
    A large batch is decoded and fingerprinted in a thread, and a small batch on the event loop.
    """
    here, threads = threading.get_ident(), []

    def noted(run):
        def noting(*given, **named):
            threads.append(threading.get_ident() == here)
            return run(*given, **named)

        return noting

    monkeypatch.setattr(list_body, "decode", noted(list_body.decode))
    monkeypatch.setattr(list_body, "decode_part", noted(list_body.decode_part))
    monkeypatch.setattr(idempotency, "_digest", noted(idempotency._digest))
    for size, expected in ((10, [True, True]), (70_000, [False] * 4)):
        body = msgspec.json.encode({"items": [item(0), item(1)]}) + b" " * size
        read(body)

        async def receive(body=body):
            return {"type": "http.request", "body": body}

        scope = dict.fromkeys(("method", "path"), "") | dict.fromkeys(("raw_path", "query_string"), b"")
        asyncio.run(idempotency._fingerprint(Request(scope | {"headers": []}, receive), 1 << 20))
        assert threads == expected
        threads.clear()


@pytest.mark.parametrize(
    ("payload", "remedy"),
    [
        ("[" * 1_000, None),
        ([[]] * 40_000, None),
        ("x" * PAYLOAD_BYTES_MAX, "the limit is 1048576"),
    ],
)
def test_a_payload_that_is_encoded_beforehand(payload, remedy):
    """
    The payloads of a large batch, which are encoded in advance, are refused by the same rules as any other payload.
    """
    body = msgspec.json.encode({"items": [item(0, payload=payload)]}) + PAD
    encoded = asyncio.run(BATCH.decoded(body, 2 * ITEM_MAX)).items[0].payload
    if remedy is None:
        assert msgspec.json.decode(encoded.data()) == payload
        return
    for _ in range(2):
        with pytest.raises(InvalidJobError, match=remedy):
            encoded.data()


class Part:
    """
    A value that counts how often `repr` is called on it.
    """

    def __init__(self) -> None:
        self.count = 0

    def __repr__(self) -> str:
        self.count += 1
        return "part"


@pytest.mark.parametrize(
    "wrap", [list, lambda parts: dict(enumerate(parts)), lambda parts: [[parts]], lambda p: {1: p}]
)
def test_a_refusal_reads_the_beginning_of_a_value(wrap):
    """
    If a large value is refused, only its beginning is read and shown.
    """
    part = Part()
    value = wrap([part] * 10_000)
    error = InvalidJobError("payload", value, "send less")
    assert str(error).startswith(f"payload is {repr(wrap([part] * 40))[:97]}...: ")
    assert show(value).endswith("...")
    assert part.count < 200


def test_a_refusal_shows_a_short_value_whole():
    """
    If a short value is refused, the error shows it completely, in Python's notation.
    """
    for value in ({"a": [1, (2,), {3}, b"4", "'"]}, [], {}, [None], "it's", b"\0", -1.5, [[[]]] * 3):
        assert str(InvalidJobError("payload", value, "no")) == f"payload is {value!r}: no"


def test_the_beginning_of_large_values_is_shown():
    """
    If a large value of any kind is refused, the error shows the beginning of the value.
    """
    for value in ("é" * 10_000, b"\xff" * 10_000, msgspec.Raw(b"1" * 10_000), [0] * 10_000, {"a": "b" * 10_000}):
        assert len(show(value)) == 100
        assert show(value).endswith("...")
    for body in (b'{"delay":[' + b"1," * 5_000 + b"1]}", b'{"delay":"' + b"1" * 5_000 + b'"}'):
        with pytest.raises(ProblemError, match=r"delay is .{97}\.\.\.: "):
            decode(b'{"do":"set","key":"a",' + body[1:], BATCH.item)
    deep = b'{"payload":' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}"
    assert asyncio.run(decoded(b'{"do":"set","key":"a","delay":1,' + deep[1:], BATCH.item)).payload
