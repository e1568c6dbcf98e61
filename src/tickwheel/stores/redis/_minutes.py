"""
Figures of nodes for each minute and quarter of an hour, in one hash. A field's name is the length, start and owner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tickwheel.jobs.minutes import MINUTE_MS, QUARTER_MS, Minute, of_text, to_text

__all__ = ["forget_minutes", "keep_minutes", "minutes"]

_AT_ONCE: Final = 500


def keep_minutes(call: Callable[..., Any], base: str, kept: Sequence[Minute]) -> None:
    pairs = [(f"{each.span_ms} {each.at} {each.owner}", to_text(each)) for each in kept]
    call("HSET", _place(base), *(part for pair in pairs for part in pair))


def minutes(call: Callable[..., Any], base: str, since: int, until: int, span_ms: int) -> list[Minute]:
    names = sorted(name for name in _names(call, base) if name[0] == span_ms and since <= name[1] < until)
    found: list[Minute] = []
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        texts = call("HMGET", _place(base), *map(_field, part))
        found += [
            of_text(owner, at, span, bytes(text).decode())
            for (span, at, owner), text in zip(part, texts, strict=True)
            if text is not None
        ]
    return found


def forget_minutes(call: Callable[..., Any], base: str, minutes_from: int, quarters_from: int) -> None:
    first = {MINUTE_MS: minutes_from, QUARTER_MS: quarters_from}
    old = [_field(name) for name in _names(call, base) if name[1] < first[name[0]]]
    for start in range(0, len(old), _AT_ONCE):
        call("HDEL", _place(base), *old[start : start + _AT_ONCE])


def _place(base: str) -> str:
    return f"{base}:minutes"


def _names(call: Callable[..., Any], base: str) -> list[tuple[int, int, str]]:
    parts = (bytes(field).decode().split(" ", 2) for field in call("HKEYS", _place(base)))
    return [(int(span), int(at), owner) for span, at, owner in parts]


def _field(name: tuple[int, int, str]) -> str:
    return " ".join(map(str, name))
