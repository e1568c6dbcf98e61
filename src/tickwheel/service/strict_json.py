"""
Decodes I-JSON (RFC 7493): UTF-8, no NaN, no lone surrogates, no duplicate names. Nesting is limited.

msgspec decodes and checks types, but it accepts two faults: deep nesting, and a name that appears twice in one object.
The second value of such a name would silently win. This module detects both faults, with code that runs in C.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import asdict, force_setattr

from tickwheel._core import nests_deeper
from tickwheel.jobs.checks import DEPTH_MAX, EncodedPayload
from tickwheel.service.problems import ProblemError, show

__all__ = [
    "LEVELS_MAX",
    "Body",
    "check_levels",
    "decode",
    "decode_part",
    "decoded",
    "encode",
    "is_small",
    "reworded",
    "with_encoded_payload",
]

LEVELS_MAX: Final = DEPTH_MAX + 3
"""Maximum nesting of a body: the maximum for a payload, plus one level each for the item, the list, and the batch."""
_SHOWN_MAX: Final = 300
_ON_LOOP_BYTES_MAX: Final = 64 * 1024
"""Maximum size, in bytes, of a body that is handled on the event loop. The slowest body of this size takes 20 ms."""
_LOOKED_AT_MAX: Final = 2 << 20
"""Maximum size, in bytes, of a malformed body that is searched for the location of the fault."""
_DECODED_MAX: Final = 1024
"""Maximum size, in bytes, of a refused value that is decoded for the message."""

encode = msgspec.json.Encoder().encode


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, gc=False):
    """
    The base of all bodies and of their parts. Unknown names are refused, because they are probably misspelt.

    The garbage collector does not walk over bodies, because decoded JSON has no cycles.
    """

    def fields(self) -> dict[str, Any]:
        return asdict(self)


T = TypeVar("T", bound=Body)
Part = TypeVar("Part")


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    check_levels(body)
    return decode_part(body, decoder)


def check_levels(body: bytes) -> None:
    if nests_deeper(body, LEVELS_MAX):
        raise ProblemError("malformed_json", f"the body nests arrays and objects deeper than {LEVELS_MAX} levels")


def decode_part(
    body: bytes,
    decoder: msgspec.json.Decoder[Part],
    place: str = "",
    check_names: Callable[[bytes, Any], None] | None = None,
) -> Part:
    # *place* is the place of this value in a whole body
    try:
        value = decoder.decode(body)
        (check_names or _check_names)(body, value)
    except msgspec.ValidationError as error:
        raise _invalid(body, str(error), place) from None
    except _RepeatedNameError as error:
        name = error.args[0]
        message = f"the name {show(name)} appears twice in one object"
        raise ProblemError("malformed_json", message, value=name, remedy="give each name once") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "half of a surrogate pair, such as \\ud800, is no character" if _has_half(body) else error
        raise ProblemError("malformed_json", f"{place or 'the body'} cannot be read: {reason}", value=body) from None
    return value


async def decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    # a large body is decoded in a thread, which also encodes its payload for the store
    if is_small(body):
        return decode(body, decoder)
    return await asyncio.to_thread(lambda: with_encoded_payload(decode(body, decoder)))


def is_small(body: bytes) -> bool:
    return len(body) <= _ON_LOOP_BYTES_MAX


def with_encoded_payload(value: Part) -> Part:
    payload = getattr(value, "payload", None)
    if payload is not None and payload is not msgspec.UNSET:
        force_setattr(value, "payload", EncodedPayload(payload))  # type: ignore[arg-type]  # our own struct
    return value


def _has_half(body: bytes) -> bool:
    # msgspec reports half a surrogate pair as truncated JSON
    if len(body) > _LOOKED_AT_MAX:
        return False
    try:
        value = json.loads(body)
    except ValueError:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _check_names(body: bytes, value: object) -> None:
    if _may_repeat_names(body, value):
        _UNIQUE.decode(body.decode())


def _may_repeat_names(body: bytes, value: object) -> bool:
    """
    Return True if *body*, which was decoded to *value*, may have a duplicate name.
    """
    # A duplicate name is only once in *value*, which then has fewer quotes than *body*. Escapes make the count useless.
    return b"\\" in body or body.count(b'"') != encode(value).count(b'"')


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def reworded(message: str) -> str:
    text = _TYPES.sub(
        lambda match: " or ".join(_NAMES.get(name, name) for name in match[0].split(" | ")), message[: 2 * _SHOWN_MAX]
    )
    return _shortened(text)


class _RepeatedNameError(Exception): ...


def _unique(pairs: list[tuple[str, object]]) -> None:
    if len(dict(pairs)) == len(pairs):
        return
    seen = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedNameError(name)
        seen.add(name)


_UNIQUE: Final = json.JSONDecoder(object_pairs_hook=_unique)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TYPES: Final = re.compile(r"(?:(?<=expected `)|(?<=got `))[a-z |]+(?=`)")
_NAMES: Final = {"float": "number", "int": "integer", "str": "string", "bool": "true or false", "datetime": "instant"}


def _invalid(body: bytes, message: str, place: str = "") -> ProblemError:
    what, _, path = message.partition(" - at `$")
    path = path.rstrip("`")
    raw = msgspec.Raw(body)
    try:
        for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
            raw = _OBJECT.decode(raw)[name] if name else _ARRAY.decode(raw)[int(index)]
    except (LookupError, msgspec.MsgspecError, UnicodeDecodeError):
        raw = msgspec.Raw(body)  # a part that cannot be decoded is shown as it arrived
    value: object = raw
    if memoryview(raw).nbytes <= _DECODED_MAX:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a number that no type can hold is shown as written
            value = msgspec.json.decode(raw)
    where = _shortened(f"{place}{path}".lstrip(".")) or "the body"
    reason = reworded(f"{what[:1].lower()}{what[1:]}")
    return ProblemError("invalid_value", f"{where} is {show(value)}: {reason}", value=value)
