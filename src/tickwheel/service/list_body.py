"""
Bodies that consist of a long list, in JSON or MessagePack.

A large body is decoded item by item in a thread. One call for the whole body would block all other threads, for seconds
if the body is hostile.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Generic, TypeVar

import msgspec

from tickwheel.service import msgpack
from tickwheel.service.problems import ProblemError
from tickwheel.service.strict_json import Body, check_levels, decode, decode_part, is_small, with_encoded_payload

__all__ = ["ListBody"]

T = TypeVar("T", bound=Body)
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ListBody(Generic[T]):
    def __init__(self, whole: type[T], outline: type[Body], item: Any, name: str) -> None:
        """
        Decode bodies to type *whole*, whose field *name* is a tuple of *item*. *outline* is *whole* with `Raw` items.
        """
        self._type, self._name = whole, name
        self._whole, self._packed = msgspec.json.Decoder(whole), msgspec.msgpack.Decoder(whole)
        self._outline, self._packed_outline = msgspec.json.Decoder(outline), msgspec.msgpack.Decoder(outline)
        self.item, self._packed_item = msgspec.json.Decoder(item), msgspec.msgpack.Decoder(item)

    async def decoded(self, body: bytes, item_bytes_max: int, *, is_packed: bool = False) -> T:
        """
        Decode *body*. In a large body, each item may have at most *item_bytes_max* bytes.
        """
        if is_small(body):
            return msgpack.decode(body, self._packed) if is_packed else decode(body, self._whole)
        return await asyncio.to_thread(self._in_parts, body, item_bytes_max, is_packed=is_packed)

    def _in_parts(self, body: bytes, item_bytes_max: int, *, is_packed: bool) -> T:
        if is_packed:
            outline = msgpack.decode(body, self._packed_outline)
        else:
            check_levels(body)
            outline = decode_part(body, self._outline, check_names=_check_outer_names)
        fields = outline.fields()
        items = []
        for number, raw in enumerate(fields[self._name]):
            place, data = f"{self._name}[{number}]", bytes(raw)
            if len(data) > item_bytes_max:
                raise ProblemError("too_large", f"{place} has more than {item_bytes_max} bytes")
            item = msgpack.decode(data, self._packed_item, place) if is_packed else decode_part(data, self.item, place)
            items.append(with_encoded_payload(item))
        return self._type(**fields | {self._name: tuple(items)})


def _check_outer_names(body: bytes, _value: object) -> None:
    """
    Refuse *body* if a name appears twice in its outermost object.
    """
    parts = _OBJECT.decode(body)
    # The decoder drops one of two equal names. Then *parts* has fewer quotes than *body*.
    if body.count(b'"') != 2 * len(parts) + sum(bytes(part).count(b'"') for part in parts.values()):
        message = f"one of the names {', '.join(parts)} appears twice in one object"
        raise ProblemError("malformed_json", message, remedy="give each name once")
