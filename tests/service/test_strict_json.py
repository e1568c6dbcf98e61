"""
Strict JSON: which bodies are refused, and with which message.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from typing import Any

import pytest

msgspec = pytest.importorskip("msgspec", reason="the service extra is not installed")

from tickwheel._core import nests_deeper  # noqa: E402 only where it is installed
from tickwheel.jobs.checks import DEPTH_MAX  # noqa: E402 only where it is installed
from tickwheel.service.problems import ProblemError  # noqa: E402 only where it is installed
from tickwheel.service.strict_json import LEVELS_MAX, Body, decode, decoded  # noqa: E402 only where it is installed


class Tea(Body):
    """
    A type of request body with a number, an instant and a value of any type.
    """

    delay: float = 0.0
    at: datetime | None = None
    payload: Any = None


DECODER = msgspec.json.Decoder(Tea)


def nested(levels: int, open_: str = "[", close: str = "]") -> bytes:
    """
    Return a body that is nested *levels* deep.

    The object around the payload counts as the first level.
    """
    return f'{{"payload":{open_ * (levels - 1)}{close * (levels - 1)}}}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"delay":1',
        b'{"delay":NaN}',
        b'{"delay":Infinity}',
        b'{"payload":"\\ud800"}',
        b'{"payload":"\xff"}',
        b'{"payload":"\x00"}',
        b"\xef\xbb\xbf{}",
        b"{'delay':1}",
        b'{"delay":1}{"delay":2}',
        nested(100_000),
        nested(LEVELS_MAX + 1),
        b"[" * 100_000,
        b'{"payload":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_malformed(body):
    """
    Every violation of strict JSON is reported as a malformed body.
    """
    with pytest.raises(ProblemError) as caught:
        decode(body, DECODER)
    assert caught.value.kind.name == "malformed_json"
    assert caught.value.kind.status == 400


@pytest.mark.parametrize(
    "body",
    [
        b'{"delay":1,"delay":2}',
        b'{"delay":0,"delay":0}',
        b'{"payload":{"a":1,"b":2,"\\u0061":3}}',
        b'{"payload":[[{"a":1,"a":1}]]}',
        b'{"payload":{"a":{"b":"c"},"a":{"b":"c:d","e":0}}}',
        b'{"at":"2030-01-01T09:00:00+0100","payload":{"a":1,"a":1}}',
        b'{"payload":{"a":1,"a":"\\u0022\\u0022"}}',
    ],
)
def test_repeated_name(body):
    """
    If a name occurs twice in an object, the error contains the name.

    This holds at any depth and for any spelling of the name.
    """
    with pytest.raises(ProblemError, match="appears twice") as caught:
        decode(body, DECODER)
    assert caught.value.value in {"delay", "a"}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"delay":"soon"}', "delay is 'soon': expected `number`, got `string`"),
        (b'{"delay":null}', "delay is null: expected `number`, got `null`"),
        (b'{"delay":true}', "delay is true: expected `number`, got `true or false`"),
        (b'{"delay":1e400}', "delay is 1e400: number out of range"),
        (b'{"dellay":1}', "unknown field `dellay`"),
        (b'{"float":1}', "unknown field `float`"),
        (b"[1]", "the body is [1]: expected `object`, got `array`"),
    ],
)
def test_wrong_type(body, detail):
    """
    A value of the wrong type is reported with its position, its text and the expected type.
    """
    with pytest.raises(ProblemError) as caught:
        decode(body, DECODER)
    assert caught.value.kind.name == "invalid_value"
    assert detail in caught.value.detail


@pytest.mark.parametrize(
    "value", [{"a": [1, {"b": None}]}, "\0", "é😀", 10**30, 1e308, -0.0, [[]] * 500, {"a": 1, "A": 2}]
)
def test_values_come_through(value):
    """
    Every accepted JSON value is decoded unchanged.
    """
    assert decode(msgspec.json.encode({"payload": value}), DECODER).payload == value


def test_depth_is_counted_outside_of_strings():
    """
    Brackets inside strings do not count as nesting, even after an escaped quote.
    """
    assert decode(b'{"payload":"\\"' + b"[" * 1_000 + b'"}', DECODER).payload == '"' + "[" * 1_000
    assert decode(nested(LEVELS_MAX), DECODER).delay == 0
    assert nests_deeper(nested(DEPTH_MAX + 1, '{"a":', "}"), DEPTH_MAX)
    for string in ('""', '"]"', r'"\"]"', r'"\\"', r'"]\\"', '"}{"'):
        assert nests_deeper(nested(DEPTH_MAX + 1, f"[{string},", "]"), DEPTH_MAX)
        flat = b"[" + b",".join([nested(DEPTH_MAX - 1, f"[{string},", "]")] * 3) + b"]"
        assert not nests_deeper(flat, DEPTH_MAX)


def test_the_levels_of_large_bodies_are_counted():
    """
    Nesting is limited by the same rules in a body of several megabytes as in a short body.
    """
    half = 4_000_000
    deep = (b'{"items":' + b"[" * 2 * half, b"[" * half + b"]" * half)
    flat = (
        nested(DEPTH_MAX - 1, "[", "]") * (half // DEPTH_MAX),
        b'"' + b"\\\\" * half + b'"',
        b'"' + b"[" * half,
        b"1" * 2 * half,
    )
    assert [nests_deeper(body, LEVELS_MAX) for body in (*deep, *flat)] == [True, True, False, False, False, False]


def test_a_large_body_leaves_the_loop():
    """
    A body of several hundred kilobytes is decoded in a thread, and a small body on the event loop.
    """
    threads = []

    class Decoder:
        def decode(self, body):
            threads.append(threading.current_thread())
            return DECODER.decode(body)

    for size in (10, 1_000_000):
        asyncio.run(decoded(b'{"payload":"' + b"x" * size + b'"}', Decoder()))
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


def test_a_huge_value_is_shortened():
    """
    If a huge value has the wrong type, the answer shows only its beginning.
    """
    with pytest.raises(ProblemError) as caught:
        decode(b'{"delay":"' + b"x" * 1_000_000 + b'"}', DECODER)
    assert len(msgspec.json.encode(caught.value.document())) < 1_000
