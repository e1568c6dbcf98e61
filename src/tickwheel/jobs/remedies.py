"""
Error messages for values that JSON cannot represent. Each suggests another value, and how to convert it back.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

__all__ = ["NotJsonError", "refuse"]

_USUAL: Final = "pass strings, numbers, True, False, None, lists and dicts"
_BASE64: Final = "pass base64.b64encode(value).decode(), and read it with base64.b64decode(text)"
_REMEDIES: Final = {
    "datetime.datetime": "pass value.isoformat(), and read it with datetime.fromisoformat(text)",
    "datetime.date": "pass value.isoformat(), and read it with date.fromisoformat(text)",
    "datetime.time": "pass value.isoformat(), and read it with time.fromisoformat(text)",
    "datetime.timedelta": "pass value.total_seconds(), and read it with timedelta(seconds=number)",
    "decimal.Decimal": "pass str(value), and read it with Decimal(text)",
    "fractions.Fraction": "pass str(value), and read it with Fraction(text)",
    "uuid.UUID": "pass str(value), and read it with UUID(text)",
    "builtins.bytes": _BASE64,
    "builtins.bytearray": _BASE64,
    "builtins.set": "pass sorted(value), and read it with set(items)",
    "builtins.frozenset": "pass sorted(value), and read it with frozenset(items)",
    "enum.Enum": "pass value.value, and read it with its class",
    "tickwheel.jobs.task_call.TaskCall": "pass it behind the key, as in set('order/17', call)",
}
"""Remedies by the name of a type. The module of the type need not be imported."""


_MARKS: Final = {
    "__struct_fields__": "pass msgspec.to_builtins(value), and read it with msgspec.convert(payload, its class)",
    "__pydantic_fields__": "pass value.model_dump(mode='json'), and read it with its class's model_validate(payload)",
    "__dataclass_fields__": "pass dataclasses.asdict(value), and read it with its class",
    "__attrs_attrs__": "pass attrs.asdict(value), and read it with its class",
}
"""Remedies by an attribute that only the classes of one library have. The library need not be imported."""


class NotJsonError(TypeError): ...


def refuse(value: Any) -> NoReturn:
    kind = type(value)
    names = (f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__)
    remedy = next((_REMEDIES[name] for name in names if name in _REMEDIES), None)
    if remedy is None:
        remedy = next((each for mark, each in _MARKS.items() if hasattr(kind, mark)), None)
    message = f"JSON has no {kind.__name__}: {remedy or _USUAL}"
    raise NotJsonError(message)
