"""
Columns of values as PostgreSQL's binary arrays.

The driver converts Python lists to arrays value by value, in Python: for a batch of a thousand jobs that takes longer
than the server takes to store them. A column has one type here, and often one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - a class like others
from typing import Any, ClassVar, Final

from tickwheel.jobs.columns import ALL

__all__ = ["ARRAY_TYPES", "COLUMNS", "NULL", "Array", "Byteas", "Int2s", "Int4s", "Int8s", "Texts"]

NULL: Final = b"\xff\xff\xff\xff"
_LENGTH: Final = Struct(">i").pack


class Array(bytes):
    """
    A parameter that is already encoded as an array.

    Attributes:
        oid: The array's type.
        element_oid: The type of its values.
        encode: Encodes a value that is not None as its length and its bytes.
    """

    __slots__ = ()
    oid: ClassVar[int]
    element_oid: ClassVar[int]
    encode: ClassVar[staticmethod[[Any], bytes]]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        if not values:
            return cls(pack(">iii", 0, 0, cls.element_oid))
        encode = cls.encode
        first = values[0]
        try:
            if values.count(first) == len(values):
                body = (NULL if first is None else encode(first)) * len(values)
            else:
                body = b"".join([NULL if value is None else encode(value) for value in values])
        except StructError as failure:
            raise OverflowError(str(failure)) from failure
        return cls(pack(">iiiii", 1, 1, cls.element_oid, len(values), 1) + body)


def _bytes(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _text(value: str) -> bytes:
    data = value.encode()
    return _LENGTH(len(data)) + data


def _integer(code: str) -> Callable[[int], bytes]:
    number = Struct(f">i{code}")
    size, pack_both = number.size - 4, number.pack
    return lambda value: pack_both(size, value)


class Int2s(Array):
    oid, element_oid, encode = 1005, 21, staticmethod(_integer("h"))


class Int4s(Array):
    oid, element_oid, encode = 1007, 23, staticmethod(_integer("i"))


class Int8s(Array):
    oid, element_oid, encode = 1016, 20, staticmethod(_integer("q"))


class Texts(Array):
    oid, element_oid, encode = 1009, 25, staticmethod(_text)


class Byteas(Array):
    oid, element_oid, encode = 1001, 17, staticmethod(_bytes)


ARRAY_TYPES: Final = (Int2s, Int4s, Int8s, Texts, Byteas)

_KINDS: Final[dict[str, type[Array]]] = {"text": Texts, "bytes": Byteas, "int2": Int2s, "int4": Int4s, "int8": Int8s}

COLUMNS: Final = tuple(_KINDS[column.kind] for column in ALL)
"""The types of a job's columns, in the order of its row."""
