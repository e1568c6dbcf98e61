"""
Checks the Host header, the origin and the token of each request before any other step.

* Without tokens, the service trusts every client on this machine, and so also web pages in the user's browser. Two
  checks stop hostile pages. A page may use a host name that resolves to 127.0.0.1; the Host header must therefore name
  an allowed host. A page may send requests to other origins; a write with a foreign Origin is therefore refused.
* With tokens, every call of the API needs a token that has not expired. The page's files and the health checks need no
  token, because they contain no data. The module `token_scope` handles tokens with a prefix.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tickwheel.jobs.model import Actor
from tickwheel.jobs.verbs import ACTOR
from tickwheel.service.http import Request
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.rate import Rate
from tickwheel.service.rejections import Rejections
from tickwheel.service.token_scope import TOKEN_SCOPE, TokenScope
from tickwheel.service.tokens import Access, Token, instant

__all__ = ["Guard", "caller", "expired", "remaining_s"]

UNTIL: Final = "tickwheel.until"
"""Key in the ASGI scope of a request whose token expires. The value is the time of the expiry."""

_LOG: Final = logging.getLogger("tickwheel.service")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN: Final = ("/static/", "/problems/", "/docs")
_HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Paths of the health checks, which have no rate limit."""
_SINGLE: Final = (
    *(b"host", b"origin", b"authorization", b"content-type"),
    *(b"if-match", b"if-none-match", b"idempotency-key"),
)
"""Headers that may appear only once."""
_OPEN_PATHS: Final = _HEALTH | {"/", "/openapi.json", "/favicon.ico"}


class Guard:
    def __init__(self, options: ServiceOptions, rejections: Rejections, *, is_mounted: bool = False) -> None:
        # if *is_mounted*, the surrounding application has already checked the Host header and the caller
        self._is_mounted = is_mounted
        self._rejections = rejections
        self._tokens = options.tokens
        self._hosts = frozenset({"localhost"}) | options.allow_hosts
        self._rate = None if options.rate_per_s is None else Rate(options.rate_per_s)

    def check(self, call: Request) -> None:
        _check_single(call)
        if self._is_mounted:
            self._check_mounted(call)
            return
        text = _token(call) if self._tokens else ""
        token = self._tokens.find(text) if text else None
        is_good = token is not None and (token.until is None or token.until > time.time())
        if self._rate is not None and call.path not in _HEALTH:
            self._rate.check(token.digest if token is not None and is_good else _client(call))
        if call.method not in _SAFE:
            _check_origin(call)
        if self._tokens:
            if call.path in _OPEN_PATHS or call.path.startswith(_OPEN):
                return
            if token is None or not is_good:
                raise self._unauthorized(call, token, is_sent=bool(text))
            self._check_access(call, token)
            if call.method not in _SAFE:
                ACTOR.set(Actor(token.name, is_always=True))  # each request has its own context
                _LOG.info("%s %s by the token %s", call.method, show(call.path), show(token.name))
        else:
            self._check_host(call)
            if call.method not in _SAFE and (page := _page(call)) is not None:
                ACTOR.set(Actor(page, is_always=True))  # writes by people are few, so they are recorded for all jobs

    def _check_mounted(self, call: Request) -> None:
        if call.path.startswith("/v1/pull"):
            remedy = "let workers pull from `tickwheel serve`, which knows the other nodes"
            raise ProblemError("page_not_found", f"nothing is leased by this application: {remedy}", value=call.path)
        if call.method in _SAFE and not call.path.startswith("/debug/"):
            return
        _check_origin(call)
        if call.scope.get("tickwheel.access") == Access.READ:
            raise ProblemError("forbidden", "this caller may only read", remedy="ask for the right to write")
        user = getattr(call.scope.get("user"), "display_name", "") or _page(call)
        if user:
            ACTOR.set(Actor(str(user), is_always=True))

    def _unauthorized(self, call: Request, token: Token | None, *, is_sent: bool) -> ProblemError:
        if token is not None:
            self._rejections.note("expired", _client(call), token.name)
            return expired(token.until or 0.0)
        self._rejections.note("unknown" if is_sent else "missing", _client(call))
        what = "the token is not one of this service" if is_sent else "there is no token"
        return ProblemError("unauthorized", what, headers={"www-authenticate": "Bearer"})

    def _check_access(self, call: Request, token: Token) -> None:
        def refused() -> None:
            self._rejections.note("forbidden", _client(call), token.name)

        call.scope["tickwheel.access"] = token.access
        if token.until is not None:
            call.scope[UNTIL] = token.until
        if token.prefix:
            call.scope[TOKEN_SCOPE] = TokenScope(token.prefix, refused)
        if token.access is Access.READ and (call.method not in _SAFE or call.path.startswith("/debug/")):
            refused()
            raise ProblemError("forbidden", "the token only allows to read", remedy="use a write token")

    def _check_host(self, call: Request) -> None:
        if b"host" not in call.headers and call.path in _HEALTH:  # as HTTP/1.0 probes do
            return
        host = call.header(b"host") or ""
        name = _hostname(host)
        if name not in self._hosts and not _is_address(name):
            message = f"the Host header is {show(host)}, and this service is not called so"
            raise ProblemError("wrong_host", message, value=host)


def caller(call: Request, options: ServiceOptions) -> str:
    """
    Return the author of *call*: the name of the token; without a token, "page from ADDRESS", "page" or "http".
    """
    return options.tokens.name_of(_token(call)) or _page(call) or "http"


def remaining_s(call: Request) -> float | None:
    until: float | None = call.scope.get(UNTIL)
    return None if until is None else max(0.0, until - time.time())


def expired(until: float) -> ProblemError:
    remedy = "send a token that is still valid: 'tickwheel token' makes one"
    headers = {"www-authenticate": 'Bearer error="invalid_token"'}
    return ProblemError("unauthorized", f"the token expired at {instant(until)}", remedy=remedy, headers=headers)


def _token(call: Request) -> str:
    scheme, _, token = (call.header(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _client(call: Request) -> str:
    address: str = (call.scope.get("client") or ("", 0))[0]
    return address


def _page(call: Request) -> str | None:
    # only browsers send an Origin with every write
    address = _client(call)
    return None if call.header(b"origin") is None else f"page from {address}" if address else "page"


def _check_single(call: Request) -> None:
    # RFC 9112, 3.2: a Host is required, and no header of `_SINGLE` may be repeated
    if len(call.headers) == len(call.scope["headers"]) and b"host" in call.headers:
        return
    names = [name for name, _ in call.scope["headers"]]
    for name in _SINGLE:
        count = names.count(name)
        if count > 1 or (count == 0 and name == b"host" and call.scope["http_version"] != "1.0"):
            header = name.decode().title()
            remedy = f"send one {header} header"
            raise ProblemError("malformed_request", f"there are {count} {header} headers: {remedy}", remedy=remedy)


def _check_origin(call: Request) -> None:
    origin = call.header(b"origin")
    if call.header(b"sec-fetch-site") == "same-origin":  # set by the browser; a proxy may have changed the Host
        return
    if origin is not None and origin.partition("://")[2] != call.header(b"host"):
        message = f"the request comes from a page of {show(origin)}"
        remedy = "write from this service's own page, or from no page"
        raise ProblemError("forbidden", message, value=origin, remedy=remedy)


@lru_cache(256)
def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # an unclosed bracket
        return ""


@lru_cache(256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
