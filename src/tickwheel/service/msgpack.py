"""
MessagePack as an alternative to JSON: in the bodies of batches, and in every answer to a client that accepts it.

The content is the same as in JSON: names, types, and instants as text. A payload with bytes or MessagePack timestamps
is refused, because JSON cannot express them.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from tickwheel.service.http import Reply, Request
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import reworded

__all__ = ["MEDIA_TYPE", "decode", "is_msgpack", "is_wanted", "packed"]

MEDIA_TYPE: Final = "application/msgpack"
_KINDS: Final = (b"application/msgpack", b"application/vnd.msgpack", b"application/x-msgpack")

T = TypeVar("T")


def is_msgpack(call: Request) -> bool:
    return call.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() in _KINDS


def is_wanted(call: Request) -> bool:
    for part in call.headers.get(b"accept", b"").split(b","):
        kind, _, parameters = part.strip().lower().partition(b";")
        if kind == b"application/json" and b"q=0" not in parameters:
            return False
        if kind in _KINDS:
            return b"q=0" not in parameters.replace(b"q=0.", b"")
    return False


def packed(reply: Reply) -> Reply:
    """
    Convert *reply* to MessagePack. A reply that is not JSON, or has no MessagePack form, is returned unchanged.
    """
    if reply.kind != b"application/json":
        return reply
    try:
        body = msgspec.msgpack.encode(msgspec.json.decode(reply.body))
    except (OverflowError, RecursionError, msgspec.MsgspecError):  # an integer of more than 64 bits, or nested too deep
        return reply
    return Reply(reply.status, MEDIA_TYPE.encode(), body, *reply.extra)


def decode(body: bytes, decoder: msgspec.msgpack.Decoder[T], place: str = "the body") -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message = f"{place} cannot be used: {reworded(str(error))}"
        raise ProblemError("invalid_value", message) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"{place} cannot be read as MessagePack: {error}"
        raise ProblemError("malformed_json", message, remedy="send one complete MessagePack object") from None
