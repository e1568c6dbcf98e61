"""
The guard lets requests in before anything else is looked at: the Host header, the origin, the token.

* Without tokens the service trusts everything that reaches loopback. A web page reaches it too, through the user's
  browser: by a name that resolves to 127.0.0.1 (so the Host header must be one of ours), or across origins (so a write
  with a foreign Origin is refused).
* With tokens every call of the API needs one; the page's files and the health checks do not, they hold no data.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from tickwheel.scheduler.model import Actor
from tickwheel.scheduler.verbs.jobs import ACTOR
from tickwheel.service.http import Request
from tickwheel.service.options import ServiceOptions
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.rate import Rate
from tickwheel.service.tokens import Access, digest_of

__all__ = ["Guard", "caller"]

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN: Final = ("/static/", "/problems/", "/docs")
_HEALTH: Final = frozenset({"/healthz", "/readyz"})
"""Answered at any rate: a flood from the proxy in front may not let its own checks fail."""
_OPEN_PATHS: Final = _HEALTH | {"/", "/openapi.json", "/favicon.ico"}


class Guard:
    """
    Decides by the head of a request.
    """

    def __init__(self, options: ServiceOptions) -> None:
        """
        Let in whom *options* let in.
        """
        self._tokens = options.tokens
        self._hosts = frozenset({"localhost"}) | options.allow_hosts
        self._rate = None if options.rate_per_s is None else Rate(options.rate_per_s)

    def check(self, call: Request) -> None:
        """
        Raise the problem of a request that is not let in.
        """
        _check_one_host(call)
        token = _token(call) if self._tokens else ""
        access = self._tokens.access(token)
        if self._rate is not None and call.path not in _HEALTH:
            self._rate.check(_client(call) if access is Access.NONE else digest_of(token))
        if call.method not in _SAFE:
            _check_origin(call)
        if self._tokens:
            _check_access(call, token, access)
            if call.method not in _SAFE:
                ACTOR.set(Actor(self._tokens.name_of(token), is_always=True))  # each request has a context of its own
        else:
            self._check_host(call)

    def _check_host(self, call: Request) -> None:
        host = call.header(b"host") or ""
        name = _hostname(host)
        if name not in self._hosts and not _is_address(name):
            message = f"the Host header is {show(host)}, and this service is not called so"
            raise ProblemError("wrong_host", message, value=host)


def caller(call: Request, options: ServiceOptions) -> str:
    """
    Return who asks, as it is noted with what was done: the name of the token, or "http" where none is asked for.
    """
    return options.tokens.name_of(_token(call)) or "http"


def _token(call: Request) -> str:
    scheme, _, token = (call.header(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _client(call: Request) -> str:
    """
    Return the address that *call* comes from; no address is the hash of a token.
    """
    address: str = (call.scope.get("client") or ("", 0))[0]
    return address


def _check_access(call: Request, token: str, access: Access) -> None:
    if call.path in _OPEN_PATHS or call.path.startswith(_OPEN):
        return
    call.scope["tickwheel.access"] = access
    if access is Access.NONE:
        what = "the token is not one of this service" if token else "there is no token"
        raise ProblemError("unauthorized", what, headers={"www-authenticate": "Bearer"})
    if access is Access.READ and (call.method not in _SAFE or call.path.startswith("/debug/")):
        raise ProblemError("forbidden", "the token only allows to read", remedy="use a write token")


def _check_one_host(call: Request) -> None:
    """
    Refuse what RFC 9112 (3.2) has a server refuse: no Host header, or several, of which others may read another one.
    """
    if b"host" not in call.headers:
        if call.scope["http_version"] == "1.0":
            return
        count = 0
    elif len(call.headers) == len(call.scope["headers"]):
        return
    else:
        count = sum(1 for name, _ in call.scope["headers"] if name == b"host")
    if count != 1:
        remedy = "send one Host header"
        raise ProblemError("malformed_request", f"there are {count} Host headers: {remedy}", remedy=remedy)


def _check_origin(call: Request) -> None:
    origin = call.header(b"origin")
    if origin is not None and origin.partition("://")[2] != call.header(b"host"):
        message = f"the request comes from a page of {show(origin)}"
        remedy = "write from this service's own page, or from no page"
        raise ProblemError("forbidden", message, value=origin, remedy=remedy)


@lru_cache(256)
def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:  # a bracket without its end
        return ""


@lru_cache(256)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
