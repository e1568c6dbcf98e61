"""
Parses the key, conditions, query and bounded body of a request. Invalid input raises a `ProblemError`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from datetime import datetime
from typing import Final, NoReturn
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive

from tickwheel.jobs.checks import check_trace
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.service.http import Request
from tickwheel.service.problems import ProblemError, show

__all__ = [
    "drained",
    "incoming_trace",
    "job_key",
    "query",
    "read_body",
    "refuse",
    "to_count",
    "to_duration",
    "to_flag",
    "to_instant",
    "to_number",
    "wanted_generation",
    "without_conditions",
    "without_query",
]

_ETAG: Final = re.compile(r'"(\d{1,19})"|(\d{1,19})')
_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]*)', re.IGNORECASE)
_FIELDS_MAX: Final = 32
_DIGITS_MAX: Final = 16
_FLAGS: Final = ("true", "false")
_DRAINED_MAX: Final = 64 << 20
"""Maximum number of bytes of a too large body that are read before the connection is cut."""
_CLOSE: Final = {"connection": "close"}


def job_key(raw: bytes) -> str:
    """
    Decode the percent-encoded key in *raw*. The server also decodes the path, but replaces invalid UTF-8 silently.
    """
    raw = unquote_to_bytes(raw)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        _unreadable("the key in the address", raw, "percent-encode the bytes of the key in UTF-8")


def wanted_generation(call: Request) -> int | None:
    """
    Return the generation in `If-Match`, 0 for `If-None-Match: *` (the job must not exist), or None.
    """
    wanted, unwanted = call.header(b"if-match"), call.header(b"if-none-match")
    generation = None if wanted is None else _generation(wanted)
    if unwanted is None:
        return generation
    if unwanted.strip() != "*":
        _unreadable("If-None-Match", unwanted, "send 'If-None-Match: *', to set only what is not there")
    if wanted is not None:
        refuse("If-Match beside If-None-Match", wanted, "send one of them: they ask for a job and for none")
    return 0


def _generation(etag: str) -> int:
    match = _ETAG.fullmatch(etag.strip())
    if match is None:
        _unreadable("If-Match", etag, 'send one ETag as this service gave it, such as "17" with its quotes')
    return int(match[1] or match[2])  # shells tend to remove the quotes


def incoming_trace(call: Request) -> str | None:
    trace = call.header(b"traceparent")
    try:
        return check_trace(trace)
    except InvalidJobError:
        return None


def query(call: Request, allowed: Collection[str] = ()) -> dict[str, str]:
    """
    Return the query's fields. Each field must be in *allowed*, and may appear only once.
    """
    query_string = call.query_string
    try:
        pairs = parse_qsl(
            query_string.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS_MAX, separator="&"
        )
    except ValueError as error:
        _unreadable("the query", query_string, f"send at most {_FIELDS_MAX} fields, percent-encoded in UTF-8 ({error})")
    fields = dict(pairs)
    for name in fields:
        if name not in allowed:
            refuse("the query's field", name, f"use {', '.join(sorted(allowed)) or 'no field'}")
    if len(fields) != len(pairs):
        refuse("the query", query_string, "give each field once")
    return fields


def without_query(run: Callable[[Request], Awaitable[ASGIApp]]) -> Callable[[Request], Awaitable[ASGIApp]]:
    async def refusing(call: Request) -> ASGIApp:
        if call.query_string:
            query(call)
        return await run(call)

    return refusing


def without_conditions(run: Callable[[Request], Awaitable[ASGIApp]]) -> Callable[[Request], Awaitable[ASGIApp]]:
    """
    Wrap *run*, which ignores `If-Match` and `If-None-Match`, to refuse requests with these headers.
    """

    async def refusing(call: Request) -> ASGIApp:
        for name in ("If-Match", "If-None-Match"):
            wanted = call.header(name.lower().encode())
            if wanted is not None:
                _unreadable(name, wanted, "leave it out here: only writes of one job heed it")
        return await run(call)

    return refusing


def to_instant(name: str, text: str) -> datetime | float:
    with suppress(ValueError):
        return float(text)
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped plus is decoded as a space
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        refuse(name, text, "give RFC 3339 with an offset, such as 2030-01-01T09:00:00Z, or seconds since the epoch")
    return moment


def to_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        refuse(name, text, "give a number")


def to_duration(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def to_count(name: str, text: str, most: int) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX and 1 <= int(text) <= most):
        refuse(name, text, f"give an integer in 1..{most}")
    return int(text)


def to_flag(name: str, text: str) -> bool:
    if text not in _FLAGS:
        refuse(name, text, "give true or false")
    return text == "true"


async def read_body(call: Request, limit: int, *, is_json: bool = True) -> bytes:
    """
    Return the whole body, of at most *limit* bytes. The server times out a body that never arrives.

    If *is_json*, refuse a body that is not declared as JSON. If not, the caller must have checked the type. A
    ClientDisconnect is raised if the client disconnects before the end of the body.
    """
    headers = call.headers
    if is_json and headers.get(b"content-type") != b"application/json":
        _check_type(headers.get(b"content-type", b"").decode("latin-1"))
    coding = headers.get(b"content-encoding", b"identity")
    if coding.lower() != b"identity":
        message, remedy = f"Content-Encoding is {show(coding.decode('latin-1'))}", "send the body as it is"
        raise ProblemError(
            "unsupported_media_type", f"{message}: {remedy}", value=coding.decode("latin-1"), remedy=remedy
        )
    length = int(headers.get(b"content-length", b"0"))  # the server has checked that it is a number
    if length > _DRAINED_MAX or (length > limit and b"expect" in headers):
        raise _too_large(limit, _CLOSE)
    return await drained(call.receive, limit)


def _check_type(text: str) -> None:
    kind, _, parameters = text.partition(";")
    if kind.strip().lower() != "application/json":
        message = f"Content-Type is {show(text)}" if text else "there is no Content-Type"
        raise ProblemError("unsupported_media_type", message, value=text)
    match = _CHARSET.search(f";{parameters}")
    if match is not None and match[1].lower() not in ("utf-8", "utf8"):
        remedy = "send the body in UTF-8"
        raise ProblemError("unsupported_media_type", f"the charset is {show(match[1])}: {remedy}", remedy=remedy)


async def drained(receive: Receive, limit: int) -> bytes:
    """
    Return the body. A too large body is read before it is refused, because most clients do not read while they send.
    """
    body = bytearray()
    size = 0
    is_open = True
    while is_open:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size += len(message.get("body", b""))
        if size <= limit:
            body += message.get("body", b"")
        elif size > _DRAINED_MAX:
            raise _too_large(limit, _CLOSE)
        is_open = message.get("more_body", False)
    if size > limit:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int, headers: dict[str, str] | None = None) -> ProblemError:
    return ProblemError("too_large", f"the body has more than {limit} bytes", headers=headers)


def _unreadable(what: str, value: object, remedy: str) -> NoReturn:
    raise ProblemError("malformed_request", f"{what} is {show(value)}: {remedy}", value=value, remedy=remedy)


def refuse(what: str, value: object, remedy: str) -> NoReturn:
    raise ProblemError("invalid_value", f"{what} is {show(value)}: {remedy}", value=value, remedy=remedy)
