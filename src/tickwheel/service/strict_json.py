"""
JSON as I-JSON (RFC 7493) wants it: UTF-8, no NaN, no lone surrogates, no duplicate names, bounded nesting.

msgspec decodes and checks types. Two faults that it accepts are checked beside it, by code that runs in C: a name that
appears twice in one object (the second would silently win), and deep nesting.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import asdict

from tickwheel._core import nests_deeper
from tickwheel.jobs.checks import DEPTH_MAX
from tickwheel.service.problems import ProblemError, show

__all__ = ["LEVELS_MAX", "Body", "decode", "decoded", "encode", "reworded"]

LEVELS_MAX: Final = DEPTH_MAX + 3
"""Maximum nesting of a body: that of a payload, in an item, of the items, of a batch."""
_SHOWN_MAX: Final = 300
_ON_LOOP_BYTES_MAX: Final = 256 * 1024
"""Maximum size of a body that is decoded on the loop: some milliseconds of CPU on the worst input."""

encode = msgspec.json.Encoder().encode
"""Return a value as JSON bytes."""


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, gc=False):
    """
    The base of all bodies and of their parts: an unknown name is refused, since it is misspelt.

    The garbage collector need not walk over decoded JSON, which has no cycles.
    """

    def fields(self) -> dict[str, Any]:
        return asdict(self)


T = TypeVar("T", bound=Body)


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if nests_deeper(body, LEVELS_MAX):
        raise ProblemError("malformed_json", f"the body nests arrays and objects deeper than {LEVELS_MAX} levels")
    try:
        value = decoder.decode(body)
        if _may_repeat_names(body, value):
            _UNIQUE.decode(body.decode())
    except msgspec.ValidationError as error:
        raise _invalid(body, str(error)) from None
    except _RepeatedNameError as error:
        name = error.args[0]
        message = f"the name {show(name)} appears twice in one object"
        raise ProblemError("malformed_json", message, value=name, remedy="give each name once") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason = "half of a surrogate pair, such as \\ud800, is no character" if _has_half(body) else error
        raise ProblemError("malformed_json", f"the body cannot be read: {reason}", value=body) from None
    return value


async def decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """
    Return `decode` of *body*; a large one is decoded in a thread, so that other requests do not wait for it.
    """
    if len(body) <= _ON_LOOP_BYTES_MAX:
        return decode(body, decoder)
    return await asyncio.to_thread(decode, body, decoder)


def _has_half(body: bytes) -> bool:
    """
    Return whether *body* is valid JSON except for half a surrogate pair, which msgspec reports as truncated.
    """
    try:
        value = json.loads(body)
    except ValueError:
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _may_repeat_names(body: bytes, value: Body) -> bool:
    """
    Return whether *body*, decoded to *value*, may have a duplicate name; False is certain.

    The value is encoded again, without defaults: nothing is added, and one of two equal names is lost. Without escapes
    a string has two quotes in both texts, so their numbers differ.
    """
    return b"\\" in body or body.count(b'"') != encode(value).count(b'"')


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 3]}..."


def reworded(message: str) -> str:
    """
    Return msgspec's *message*, shortened, with the types named as JSON names them.
    """
    text = _TYPES.sub(lambda match: " or ".join(_NAMES.get(name, name) for name in match[0].split(" | ")), message)
    return _shortened(text)


class _RepeatedNameError(Exception):
    """
    Carries the name that appears twice.
    """


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
"""JSON's names of the types in msgspec's messages."""


def _invalid(body: bytes, message: str) -> ProblemError:
    """
    Return the problem for msgspec's *message*, with the value that its path points to.
    """
    what, _, path = message.partition(" - at `$")
    path = path.rstrip("`")
    raw = msgspec.Raw(body)
    try:
        for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
            raw = _OBJECT.decode(raw)[name] if name else _ARRAY.decode(raw)[int(index)]
    except (LookupError, msgspec.MsgspecError, UnicodeDecodeError):
        raw = msgspec.Raw(body)  # what decodes only in part is shown as it came
    value: object = raw
    with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # a number that nothing holds is shown as it was written
        value = msgspec.json.decode(raw)
    where = _shortened(path.lstrip(".")) or "the body"
    reason = reworded(f"{what[:1].lower()}{what[1:]}")
    return ProblemError("invalid_value", f"{where} is {show(value)}: {reason}", value=value)
