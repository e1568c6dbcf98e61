"""
A request and a reply, as small as ASGI allows.

Starlette routes all requests except those about jobs, and sends files and streams. Its request and response objects
cost as much as setting a job, so the operations use this module's classes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from typing import Final

from starlette.types import Receive, Scope, Send

__all__ = ["ALWAYS", "SEND_AT_ONCE", "Reply", "Request"]

ALWAYS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""Headers of every reply."""

SEND_AT_ONCE: Final = "tickwheel.send_at_once"
"""Key in a request's ASGI scope. The value is a function that sends a whole `Reply`, or returns False if it cannot."""

_COMPRESSED_MIN: Final = 1_000
"""Minimum size of a body to compress, in bytes. Smaller bodies fit into one or two packets."""
_COMPRESSED_MAX: Final = 256_000
"""Maximum size of a body to compress, in bytes. A larger body would block the event loop for longer than 5 ms."""
_LEVEL: Final = 4
_GZIP: Final = re.compile(rb"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))", re.IGNORECASE)


class Request:
    """
    One request: its head, and the source of its body.

    *path* is percent-decoded, and invalid UTF-8 becomes replacement characters. *query_string* has no question mark.
    *headers* have lower-case names; only the last of repeated headers is kept.
    """

    __slots__ = ("headers", "method", "path", "query_string", "raw_path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: bytes = scope["raw_path"]
        self.query_string: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Reply:
    __slots__ = ("body", "extra", "is_final", "kind", "status")

    def __init__(self, status: int, kind: bytes, body: bytes, *extra: tuple[bytes, bytes]) -> None:
        self.status = status
        self.kind = kind
        self.body = body
        self.extra = extra
        self.is_final = True
        """True if a repeated request gets this answer. False if part of the request was not done."""

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"content-type", self.kind), (b"content-length", b"%d" % len(self.body)), *ALWAYS, *self.extra)

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        reply = self._compressed() if self._is_worth_it and _takes_gzip(scope) else self
        send_at_once: Callable[[Reply], bool] | None = scope.get(SEND_AT_ONCE)
        if send_at_once is None or not send_at_once(reply):
            await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
            await send({"type": "http.response.body", "body": reply.body})

    @property
    def _is_worth_it(self) -> bool:
        return _COMPRESSED_MIN <= len(self.body) <= _COMPRESSED_MAX

    def _compressed(self) -> Reply:
        body = gzip.compress(self.body, _LEVEL, mtime=0)
        encoded = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
        return Reply(self.status, self.kind, body, *self.extra, *encoded)


def _takes_gzip(scope: Scope) -> bool:
    return any(name == b"accept-encoding" and _GZIP.search(value) for name, value in scope["headers"])
