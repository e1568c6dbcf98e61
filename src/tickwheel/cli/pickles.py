"""
Reads pickles of other programs without running their code. A `Foreign` object replaces an object of an unknown class.
"""

from __future__ import annotations

import datetime as dt
import io
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, Self
from zoneinfo import ZoneInfo

__all__ = ["Foreign", "foreign_in", "load"]


class Foreign:
    """
    Replaces an object whose class is unknown. pickle passes the data of the original object to it.
    """

    path: ClassVar[str]
    arguments: tuple[Any, ...]
    fields: dict[str, Any]

    def __new__(cls, *arguments: object, **named: object) -> Self:
        """
        Keep the arguments here, because pickle may not call `__init__`.
        """
        made = super().__new__(cls)
        made.arguments, made.fields = arguments, dict(named)
        return made

    def __init__(self, *_: object, **__: object) -> None:
        pass

    @property
    def kind(self) -> str:
        return self.path.rpartition(".")[2]

    def __setstate__(self, state: Any) -> None:
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                self.fields |= part

    def __setitem__(self, key: object, value: object) -> None: ...

    def append(self, item: object) -> None: ...


def _zone_maker(owner: object, name: str) -> object:
    # pickles of zones use `getattr` only for this
    if owner is ZoneInfo and name == "_unpickle":
        return lambda key, _cached: ZoneInfo(key)
    return _kind_of(f"{name} of {owner!r}")


def _of_pytz(name: str = "UTC", *_: object) -> ZoneInfo:
    return ZoneInfo(name)


_HARMLESS: Final[Mapping[tuple[str, str], object]] = {
    ("builtins", "getattr"): _zone_maker,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("datetime", "date"): dt.date,
    ("datetime", "datetime"): dt.datetime,
    ("datetime", "timedelta"): dt.timedelta,
    ("datetime", "timezone"): dt.timezone,
    ("pytz", "_UTC"): _of_pytz,
    ("pytz", "_p"): _of_pytz,
    ("zoneinfo", "ZoneInfo"): ZoneInfo,
    ("zoneinfo", "ZoneInfo._unpickle"): lambda key, _cached: ZoneInfo(key),
}
"""Classes from which a pickle may create objects, because these objects only hold values."""


def load(data: bytes, known: Mapping[tuple[str, str], object] = _HARMLESS) -> Any:
    """
    Return the object of the pickle *data*. Objects of a class that is not in *known* become a `Foreign`.
    """

    class Reader(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found = known.get((module, name)) or _HARMLESS.get((module, name))
            return _kind_of(f"{module}.{name}") if found is None else found

    try:
        return Reader(io.BytesIO(data)).load()
    except Exception as error:  # noqa: BLE001  a damaged pickle raises anything
        message = f"its pickle cannot be read ({type(error).__name__}: {error})"
        raise ValueError(message) from None


def foreign_in(value: object) -> Iterator[str]:
    if isinstance(value, Foreign) or (isinstance(value, type) and issubclass(value, Foreign)):
        yield value.path
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from foreign_in(key)
            yield from foreign_in(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from foreign_in(each)


def _kind_of(path: str) -> type[Foreign]:
    return type("Foreign", (Foreign,), {"path": path})
