"""
Forwards requests to the other nodes of the store, because only one node has the lease of a pull worker.

Each node reports the URL of its service, and a secret, with its heartbeats. If a node gets a request about a lease that
it does not hold, it forwards the request to the other nodes. A forwarded request has the secret of the node that gets
it, instead of the caller's token. A load balancer therefore needs no sticky sessions. A stopped node is not asked,
because it holds no lease.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.figures import Figures
from tickwheel.service.http import Request
from tickwheel.service.options import ServiceOptions
from tickwheel.service.strict_json import encode

if TYPE_CHECKING:
    import aiohttp

__all__ = ["FORWARDED", "Peer", "Peers", "UnreachablePeerError", "reachable_url"]

_T = TypeVar("_T")

FORWARDED: Final = b"/internal/pull"
"""Path of forwarded requests; it is not part of the API."""
_SECRET: Final = b"tickwheel-secret"
_FRESH_S: Final = 1.0
"""Maximum age of the list of nodes, in seconds. The store is read for this list at most once a second."""
_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 15.0
"""Time limit of a node's answer, in seconds, in addition to the wait that the worker requested."""
_CONNECTIONS_MAX: Final = 2_000


class UnreachablePeerError(Exception):
    """
    A live node does not answer, so the outcome of the request is unknown.
    """

    def __init__(self, peer: Peer, reason: str) -> None:
        super().__init__(f"{peer.url} did not answer: {reason}")


@dataclass(frozen=True, slots=True)
class Peer:
    """
    Another node: the URL of its service, and the secret that is sent with each forwarded request.
    """

    url: str
    secret: str


class Peers:
    def __init__(self, scheduler: AsyncScheduler, figures: Figures, options: ServiceOptions) -> None:
        self.secret = secrets.token_urlsafe(24)
        self._scheduler = scheduler
        self._figures = figures
        self._cert = options.tls_cert
        self._lock = asyncio.Lock()
        self._read_at = -1.0
        self._others: list[Peer] = []
        self._session: aiohttp.ClientSession | None = None

    def is_peer(self, call: Request) -> bool:
        return hmac.compare_digest(call.headers.get(_SECRET, b""), self.secret.encode())

    async def others(self) -> list[Peer]:
        async with self._lock:
            if time.monotonic() - self._read_at > _FRESH_S:
                nodes = await self._scheduler.nodes()
                now = time.time() * 1000 + (await self._figures.scheduler_stats())["offset_ms"]
                found = [_peer(node.figures) for node in nodes if node.until is None or node.until > now]
                self._others = [peer for peer in found if peer is not None and peer.secret != self.secret]
                self._read_at = time.monotonic()
        return self._others

    async def ask(
        self,
        peer: Peer,
        body: dict[str, Any],
        kind: type[_T],
        wait_s: float = 0.0,
        *,
        path: str = FORWARDED.decode(),
        answer_s: float = _ANSWER_S,
    ) -> _T | None:
        """
        Return the answer of *peer* to *body* at *path*, within *wait_s* plus *answer_s*.

        The result is None if no service listens at the address, because the node has stopped. An UnreachablePeerError
        is raised if no answer arrives, or if the answer is not from a node.
        """
        import aiohttp  # noqa: PLC0415  slow to import, and a single node does not need it

        timeout = aiohttp.ClientTimeout(total=wait_s + answer_s, sock_connect=_CONNECT_S)
        headers = {_SECRET.decode(): peer.secret, "content-type": "application/json"}
        url = peer.url + path
        try:
            async with self._opened().post(
                url, data=encode(body), headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status != 200:  # noqa: PLR2004  its only success status
                    raise UnreachablePeerError(peer, f"status {answer.status}")
                return msgspec.json.decode(await answer.read(), type=kind)
        except (aiohttp.ClientError, TimeoutError, OSError, msgspec.DecodeError) as error:
            if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
                return None
            raise UnreachablePeerError(peer, str(error) or type(error).__name__) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp  # noqa: PLC0415  as in `ask`

        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS_MAX, ssl=self._trust() or True)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _trust(self) -> ssl.SSLContext | None:
        # all nodes share the certificate of this node, under different host names
        if self._cert is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(self._cert)
        return context


def reachable_url(options: ServiceOptions, scheme: str, host: str, port: int, store: str) -> str:
    """
    Return the URL at which other nodes reach this service: `advertise`, or the address that it listens on.

    If *host* is a wildcard, the URL has the address from which this machine reaches the server of *store*.
    """
    if options.advertise is not None:
        return options.advertise.rstrip("/")
    if host in {"", "0.0.0.0", "::"}:  # noqa: S104  compared, not bound
        host = _address_towards(urlsplit(store.partition(",")[0]).hostname)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _address_towards(server: str | None) -> str:
    # loopback if *server* is on this machine or unknown
    try:
        family, kind, _, _, place = socket.getaddrinfo(server or "localhost", 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(place)  # a datagram socket: nothing is sent
            address = str(probe.getsockname()[0]).partition("%")[0]
        ipaddress.ip_address(address)
    except (OSError, ValueError):
        return "127.0.0.1"
    return address


def _peer(figures: Mapping[str, Any] | None) -> Peer | None:
    # a node of another version may report no service
    service = None if figures is None else figures.get("service")
    if not isinstance(service, Mapping):
        return None
    url, secret = service.get("url"), service.get("secret")
    return Peer(url, secret) if isinstance(url, str) and isinstance(secret, str) else None
