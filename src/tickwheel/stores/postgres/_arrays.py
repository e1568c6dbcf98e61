"""
Encodes columns of values as PostgreSQL's binary arrays.

The driver converts Python lists to arrays value by value, in Python. For a batch of a thousand jobs, this conversion
takes longer than the server's work. Here all values of a column have one type, and are often equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - `struct.error` is a class
from typing import Any, ClassVar, Final

from tickwheel.jobs.columns import ALL

__all__ = ["ARRAY_TYPES", "COLUMNS", "NULL", "Array", "Byteas", "Int2s", "Int4s", "Int8s", "Texts"]

NULL: Final = b"\xff\xff\xff\xff"
_LENGTH: Final = Struct(">i").pack


class Array(bytes):
    """
    A parameter that is already encoded as an array. *encode* encodes one value, as its length and its bytes.
    """

    __slots__ = ()
    _one: ClassVar[bytes]
    oid: ClassVar[int]
    element_oid: ClassVar[int]
    encode: ClassVar[staticmethod[[Any], bytes]]
    encode_all: ClassVar[staticmethod[[Sequence[Any]], bytes]]

    def __init_subclass__(cls) -> None:
        cls._one = pack(">iiiii", 1, 1, cls.element_oid, 1, 1)

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        if not values:
            return cls(pack(">iii", 0, 0, cls.element_oid))
        encode = cls.encode
        first = values[0]
        try:
            if len(values) == 1:
                return cls(cls._one + (NULL if first is None else encode(first)))
            if values.count(first) == len(values):
                body = (NULL if first is None else encode(first)) * len(values)
            elif None in values:
                body = b"".join([NULL if value is None else encode(value) for value in values])
            else:
                body = cls.encode_all(values)
        except StructError as failure:
            raise OverflowError(str(failure)) from failure
        return cls(pack(">iiiii", 1, 1, cls.element_oid, len(values), 1) + body)


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _all_bytes(values: Sequence[bytes]) -> bytes:
    sizes = set(map(len, values))
    if len(sizes) == 1:
        head = _LENGTH(sizes.pop())
        return head + head.join(values)
    return b"".join(chain.from_iterable(zip(map(_LENGTH, map(len, values)), values, strict=True)))


def _text(value: str) -> bytes:
    return _bytes(value.encode())


def _all_texts(values: Sequence[str]) -> bytes:
    return _all_bytes([value.encode() for value in values])


def _integer(code: str) -> Callable[[int], bytes]:
    number = Struct(f">i{code}")
    size, pack_both = number.size - 4, number.pack
    return lambda value: pack_both(size, value)


def _all_integers(code: str) -> Callable[[Sequence[int]], bytes]:
    pair = f"i{code}"
    size = Struct(f">{pair}").size - 4

    def encoded(values: Sequence[int]) -> bytes:
        both = [size] * (2 * len(values))
        both[1::2] = values
        return Struct(f">{pair * len(values)}").pack(*both)

    return encoded


class Int2s(Array):
    oid, element_oid = 1005, 21
    encode, encode_all = staticmethod(_integer("h")), staticmethod(_all_integers("h"))


class Int4s(Array):
    oid, element_oid = 1007, 23
    encode, encode_all = staticmethod(_integer("i")), staticmethod(_all_integers("i"))


class Int8s(Array):
    oid, element_oid = 1016, 20
    encode, encode_all = staticmethod(_integer("q")), staticmethod(_all_integers("q"))


class Texts(Array):
    oid, element_oid, encode, encode_all = 1009, 25, staticmethod(_text), staticmethod(_all_texts)

    @classmethod
    def of_bytes(cls, values: Sequence[bytes]) -> Texts:
        return cls(pack(">iiiii", 1, 1, cls.element_oid, len(values), 1) + _all_bytes(values))


class Byteas(Array):
    oid, element_oid, encode, encode_all = 1001, 17, staticmethod(_bytes), staticmethod(_all_bytes)


ARRAY_TYPES: Final = (Int2s, Int4s, Int8s, Texts, Byteas)

_KINDS: Final[dict[str, type[Array]]] = {"text": Texts, "bytes": Byteas, "int2": Int2s, "int4": Int4s, "int8": Int8s}

COLUMNS: Final = tuple(_KINDS[column.kind] for column in ALL)
"""The types of a job's columns, in the order of the row."""
