from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from tickwheel.calendar import duration
from tickwheel.jobs.errors import InvalidJobError

if TYPE_CHECKING:
    from tickwheel.targets.contract import Target

__all__ = ["REDIS_OPTIONS", "REDIS_SCHEMES", "TargetUrl", "UrlForm", "flag", "number", "seconds", "text", "whole"]

REDIS_SCHEMES: Final = ("redis", "rediss", "unix")
REDIS_OPTIONS: Final = ("db", "ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")
"""Options that redis-py reads from a URL itself."""

_MASK: Final = "***"
_FLAGS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class TargetUrl:
    """
    A URL, split into parts.

    *base* has no options; *shown* has no options, no user and no password. *options* are as written, with their
    %-escapes; a plus sign is not a space.
    """

    __slots__ = ("base", "options", "scheme", "shown")

    def __init__(self, url: str) -> None:
        self.base, _, query = url.partition("?")
        scheme, _, place = self.base.partition(":")
        self.scheme = scheme.lower()
        self.options = [(name, value) for name, _, value in (pair.partition("=") for pair in query.split("&")) if name]
        user, at, host = place.rpartition("@")
        self.shown = f"{scheme}:{'//' if user.startswith('//') else ''}{_MASK}@{host}" if at else self.base
        if "@" in query or ":" not in self.base:  # an unescaped question mark in a password, or no URL
            self.shown = f"{scheme}:{_MASK}" if "@" in query else _MASK

    def check_port(self, example: str) -> None:
        # the error shows no part of the URL, because any part may contain a password
        try:
            _ = urlsplit(self.base).port
        except ValueError:
            remedy = (
                f"its host or port cannot be read: write as in {example!r}, with %-escapes for :/?#[]@ in a password"
            )
            raise InvalidJobError("url", _MASK, remedy) from None

    def take(self, readers: Mapping[str, Callable[[str, str], Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self.options:
            if name in readers:
                if name in found:
                    raise InvalidJobError(name, "there twice", "write it once")
                found[name] = readers[name](name, unquote(value))
        self.options = [(name, value) for name, value in self.options if name not in readers]
        return found

    def take_all(self, name: str) -> list[str]:
        found = [unquote(value) for each, value in self.options if each == name]
        self.options = [(each, value) for each, value in self.options if each != name]
        return found

    def refuse_others(self, taken: Iterable[str], known: Iterable[str] = ()) -> None:
        # the message also lists the options in *taken*
        known = tuple(known)
        for name, _ in self.options:
            if name not in known:
                remedy = f"the options are {', '.join((*taken, *known)) or 'none'}"
                shown = name if name.replace(".", "_").isidentifier() else _MASK
                raise InvalidJobError("option", shown, f"{remedy}; the characters :/?#[]@ of a password are %-escaped")

    def inner(self, schemes: Iterable[str], example: str) -> str:
        queue, _, scheme = self.scheme.partition("+")
        if scheme not in schemes or not self.base[len(self.scheme) :].startswith("://"):
            remedy = f"{queue} goes by {', '.join(f'{queue}+{each}://' for each in schemes)}"
            raise InvalidJobError("url", self.shown, f"{remedy}: write as in {example!r}")
        self.check_port(example)
        return self.rest(f"{scheme}{self.base[len(self.scheme) :]}")

    def rest(self, base: str | None = None) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.options)
        return (self.base if base is None else base) + (f"?{query}" if query else "")


def whole(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise InvalidJobError(name, value, "write a whole number")
    return int(value)


def seconds(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        pass
    else:
        if math.isnan(number):
            raise InvalidJobError(name, number, "write seconds, such as 2.5")
        return number
    try:
        return duration.from_text(value)
    except ValueError as error:
        raise InvalidJobError(name, value, f"write seconds, such as 2.5; or {error}") from None


def number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise InvalidJobError(name, value, "write a number, such as 20") from None


def flag(name: str, value: str) -> bool:
    found = _FLAGS.get(value.lower())
    if found is None:
        raise InvalidJobError(name, value, "write true or false")
    return found


def text(_name: str, value: str) -> str:
    return value


class UrlForm(NamedTuple):
    make: Callable[[TargetUrl], Target]
    example: str
    handler: str = "tickwheel"
