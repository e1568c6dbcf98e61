"""
The codec of tasks: converts values of annotated types to JSON and back, by msgspec.

Types that msgspec does not know, such as pydantic's models, use their own conversions. A payload contains no class
names, so only the annotation determines the type of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tickwheel.errors import MissingExtraError
from tickwheel.targets import Firing

if TYPE_CHECKING:
    import msgspec

__all__ = ["Codec"]

_KNOWN: Final = (
    "annotate it with what JSON can hold: str, int, float, bool, None, list, dict, an enum, datetime, UUID, Decimal, "
    "a dataclass, a msgspec Struct or a pydantic model"
)


class Codec:
    """
    One annotated type. *annotation* is already evaluated. Raises a TypeError if JSON cannot represent its values.
    """

    def __init__(self, annotation: Any) -> None:
        self._type = annotation
        self._msgspec = _library()
        try:
            parts = list(_parts(self._msgspec.inspect.type_info(annotation)))
        except (TypeError, NameError) as error:
            message = f"{error}: {_KNOWN}"
            raise TypeError(message) from None
        kinds = self._msgspec.inspect
        if any(getattr(part, "cls", None) is Firing for part in parts):
            message = "a firing is not passed as an argument: name the parameter 'firing'"
            raise TypeError(message)
        for part in parts:
            if isinstance(part, kinds.CustomType) and not hasattr(part.cls, "model_validate"):
                message = f"JSON cannot hold {part.cls.__qualname__}: {_KNOWN}"
                raise TypeError(message)
        self._is_open = any(isinstance(part, kinds.AnyType) for part in parts)
        self._has_sets = any(isinstance(part, (kinds.SetType, kinds.FrozenSetType)) for part in parts)

    def encode(self, value: Any) -> Any:
        try:
            built = self._builtins(value)
        except Exception as error:  # noqa: BLE001  a type's own code may raise anything
            raise ValueError(str(error)) from None
        again = self.decode(built)
        is_same = again == value if self._is_open else self._builtins(again) == built
        if not is_same and self._has_sets:  # a set of several types cannot be sorted
            is_same = again == value
        if not is_same:
            what = "annotate the parameter with its type" if self._is_open else "pass a value of that very type"
            message = f"it would come back as {again!r}: {what}"
            raise ValueError(message)
        return built

    def decode(self, built: Any) -> Any:
        try:
            return self._msgspec.convert(built, self._type, str_keys=True, dec_hook=_custom)
        except Exception as error:  # noqa: BLE001  as above
            raise ValueError(str(error)) from None

    def _builtins(self, value: Any) -> Any:
        convert = partial(self._msgspec.to_builtins, str_keys=True, enc_hook=_dumped)
        if self._has_sets:  # the order of the values depends on hashes, which differ between processes
            with suppress(TypeError):
                return convert(value, order="deterministic")
        return convert(value)


def _library() -> Any:
    try:
        import msgspec  # noqa: PLC0415  on use
        import msgspec.inspect  # noqa: PLC0415  as above
    except ImportError as error:
        raise MissingExtraError("msgspec", "tasks") from error
    return msgspec


def _parts(info: Any) -> Iterator[msgspec.inspect.Type]:
    seen: set[int] = set()
    left = [info]
    while left:
        part = left.pop()
        if id(part) in seen or not hasattr(part, "__struct_fields__"):
            continue
        seen.add(id(part))
        if type(part).__module__ == "msgspec.inspect" and type(part).__name__ != "Field":
            yield part
        for name in part.__struct_fields__:
            if name in {"cls", "default", "default_factory"}:
                continue
            value = getattr(part, name)
            left += value if isinstance(value, tuple | list) else [value]


def _custom(kind: type, built: Any) -> Any:
    return kind.model_validate(built)  # type: ignore[attr-defined]  # a pydantic model, as its codec has checked


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    message = f"JSON has no {type(value).__name__}"
    raise TypeError(message)
