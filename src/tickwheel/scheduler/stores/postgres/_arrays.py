"""
Columns of values as PostgreSQL's binary arrays.

The driver makes arrays of Python lists value by value, in Python: for a batch of a thousand jobs it takes longer than
the server takes to store them. A column is one type here, and often one value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct, pack
from struct import error as StructError  # noqa: N812 - a class like others
from typing import Any, ClassVar, Final, NamedTuple

__all__ = ["ARRAY_TYPES", "COLUMNS", "Array", "ArrayType", "Byteas", "Int2s", "Int4s", "Int8s", "Texts"]

_NULL: Final = b"\xff\xff\xff\xff"
_LENGTH: Final = Struct(">i").pack


class ArrayType(NamedTuple):
    """
    The type of an array's elements.

    Attributes:
        oid: The array's type.
        element_oid: That of its values.
        encode: Makes a value that is not None into its length and its bytes.
    """

    oid: int
    element_oid: int
    encode: Callable[[Any], bytes]


class Array(bytes):
    """
    A parameter that is an array already.
    """

    __slots__ = ()
    array_type: ClassVar[ArrayType]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Array:
        """
        Return the array of *values*.

        Raises:
            OverflowError: If a number is too large.
            UnicodeError: If a text has a lone surrogate.
        """
        if not values:
            return cls(pack(">iii", 0, 0, cls.array_type.element_oid))
        encode = cls.array_type.encode
        first = values[0]
        try:
            if values.count(first) == len(values):
                body = (_NULL if first is None else encode(first)) * len(values)
            else:
                body = b"".join([_NULL if value is None else encode(value) for value in values])
        except StructError as failure:
            raise OverflowError(str(failure)) from failure
        return cls(pack(">iiiii", 1, 1, cls.array_type.element_oid, len(values), 1) + body)


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
    """
    An array of 16-bit integers.
    """

    array_type = ArrayType(1005, 21, _integer("h"))


class Int4s(Array):
    """
    An array of 32-bit integers.
    """

    array_type = ArrayType(1007, 23, _integer("i"))


class Int8s(Array):
    """
    An array of 64-bit integers.
    """

    array_type = ArrayType(1016, 20, _integer("q"))


class Texts(Array):
    """
    An array of texts.
    """

    array_type = ArrayType(1009, 25, _text)


class Byteas(Array):
    """
    An array of byte strings.
    """

    array_type = ArrayType(1001, 17, _bytes)


ARRAY_TYPES: Final = (Int2s, Int4s, Int8s, Texts, Byteas)

COLUMNS: Final[tuple[type[Array], ...]] = (
    Texts,
    Int8s,
    Int8s,
    Byteas,
    Texts,
    Texts,
    Int4s,
    Texts,
    Int8s,
    Texts,
    Int2s,
    Texts,
    Texts,
    Int8s,
    Texts,
    Int4s,
)
"""Those of a job, in the order of its row, its pause, and the shard."""
