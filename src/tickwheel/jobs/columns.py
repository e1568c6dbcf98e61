"""
The columns of a job, declared once from the fields of `Job`. Codecs convert values that tables cannot hold directly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from tickwheel.jobs.model import USUAL_RETRY, Job, Pause, RetryPolicy, State

__all__ = ["ALL", "DEFAULTS", "NAMES", "PLAIN", "UNSTORED", "Column", "pause_of", "pause_text", "text_of"]


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of a job.

    Attributes:
        name: Name of the field, and of the column in each table.
        kind: The stored type: "text", "bytes", "int2", "int4" or "int8".
        default: The field's default in a job.
        empty: The stored form of the default.
        encode: Returns the stored form of a value that is not the default; None if values are stored unchanged.
        decode: The inverse of `encode`.
    """

    name: str
    kind: str
    default: Any
    empty: Any
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


class _Codec(NamedTuple):
    kind: str
    encode: Callable[[Any], Any] | None = None
    decode: Callable[[Any], Any] | None = None


def pause_of(text: str) -> Pause:
    return Pause(*json.loads(text))


def pause_text(pause: Pause) -> str:
    return json.dumps([pause.at, pause.by, pause.note], separators=(",", ":"))


def text_of(error: str | None) -> str | None:
    return error and error.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")


@lru_cache(maxsize=1024)
def _retry_of(text: str) -> RetryPolicy:
    attempts, kind, base_ms, max_ms, jitter, waits_ms = json.loads(text)
    return RetryPolicy(attempts, kind, base_ms, max_ms, jitter, tuple(waits_ms))


@lru_cache(maxsize=1024)
def _retry_text(policy: RetryPolicy) -> str | None:
    if policy == USUAL_RETRY:
        return None
    return json.dumps(
        [policy.attempts, policy.kind, policy.base_ms, policy.max_ms, policy.jitter, policy.waits_ms],
        separators=(",", ":"),
    )


UNSTORED: Final = ("lacks_handler", "awaits_worker")
"""Fields of `Job` without columns: `lacks_handler` is part of the stored `state`, and `awaits_worker` is not stored."""

PLAIN: Final = ("due_at", "generation", "key", "payload", "target", "handler", "first_set_at")
"""The columns that may have any value in a plain job (see `rows.is_plain`). All other columns have their defaults."""

_KINDS: Final = {
    int: _Codec("int8"),
    str: _Codec("text"),
    bytes: _Codec("bytes"),
    bool: _Codec("int2", int, bool),
    float: _Codec("text", repr, float),
}
"""The stored form of each type, unless the column has its own codec. None is stored as NULL."""

_CODECS: Final = {
    "attempt": _Codec("int4"),
    "retry": _Codec("text", _retry_text, _retry_of),
    "state": _Codec("int2", tuple(State).index, tuple(State).__getitem__),
    "error": _Codec("text", text_of),
    "pause": _Codec("text", pause_text, pause_of),
}
"""Codecs of columns whose type does not determine the stored form."""


def _column(field: Field[Any], hint: Any) -> Column:
    kinds = set(get_args(hint) or (hint,)) - {NoneType}
    codec = _CODECS.get(field.name) or (_KINDS.get(kinds.pop()) if len(kinds) == 1 else None)
    if codec is None:
        what = f"Job.{field.name} is a {hint}: write a codec for it into _CODECS"
        raise TypeError(what)
    default = None if field.default is MISSING else field.default
    empty = default if default is None or codec.encode is None else codec.encode(default)
    return Column(field.name, codec.kind, default, empty, codec.encode, codec.decode)


def _columns() -> tuple[Column, ...]:
    hints, found = get_type_hints(Job), fields(Job)
    stored, last = found[: -len(UNSTORED)], tuple(field.name for field in found[-len(UNSTORED) :])
    if last != UNSTORED:
        what = f"Job ends with the fields {last}: put new ones before {UNSTORED[0]!r}"
        raise TypeError(what)
    return tuple(_column(field, hints[field.name]) for field in stored)


ALL: Final = _columns()
"""Every column, in the order of the fields."""

NAMES: Final = tuple(column.name for column in ALL)

DEFAULTS: Final = {column.name: column.default for column in ALL if column.name not in PLAIN}
"""The default of each column that is not in `PLAIN`."""
