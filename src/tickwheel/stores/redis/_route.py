"""
Finds the server that holds the store: by a URL, a cluster or sentinels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode

from tickwheel.jobs.errors import StoreError
from tickwheel.threads import Lock

__all__ = ["Connection", "Route", "route_of"]

Connection = Any
"""A connection of the driver; its class depends on the URL."""

_CONNECT_S: Final = 5.0
_LOOK_S: Final = 2.0
"""Time limit for the answer of a node that is asked for the store's server. After that, the next node is asked."""
_NODES_MAX: Final = 64
_HOST: Final = re.compile(r"(\[[^]]*\]|[^:\[\],]+)(?::(\d{1,5}))?")


class Address(NamedTuple):
    host: str
    port: int


class Route:
    """
    The route to a server. *is_searched* is True if the server's role may change and must be checked. Thread-safe.
    """

    is_searched = False

    def __init__(self, redis: Any, location: str, call_s: float) -> None:
        # *call_s* limits each wait, because an owner must not wait until its lease ends
        self._redis = redis
        # The pool is used only to parse the URL. It would count every connection ever made against a limit.
        pool = redis.ConnectionPool.from_url(
            location,
            protocol=2,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            socket_connect_timeout=min(_CONNECT_S, call_s),
            socket_timeout=call_s,
            client_name="tickwheel",
            **({} if location.startswith("unix") else {"socket_keepalive": True}),
        )
        self._kind, self._options = pool.connection_class, pool.connection_kwargs

    def connection(self) -> Connection:
        return self._kind(**self._options)

    def leads_to(self, connection: Connection) -> bool:
        del connection
        return True

    def lose(self) -> None: ...

    def follow(self, host: str, port: int) -> bool:
        del host, port
        return False


class SearchedRoute(Route):
    is_searched = True

    def __init__(self, redis: Any, location: str, call_s: float, hosts: Iterable[Address], look: RouteProbe) -> None:
        super().__init__(redis, location, call_s)
        self._look_s = min(_LOOK_S, call_s)
        self._hosts, self._look = list(hosts), look
        self._seen: list[Address] = []
        self._address: Address | None = None
        self._lock = Lock()

    def connection(self) -> Connection:
        with self._lock:
            if self._address is None:
                self._address = self._find()
            return self._to(self._address)

    def leads_to(self, connection: Connection) -> bool:
        return self._address == (connection.host, connection.port)

    def lose(self) -> None:
        self._address = None

    def follow(self, host: str, port: int) -> bool:
        self._address = Address(host, port) if host else None
        return True

    def _find(self) -> Address:
        errors: list[Exception] = []
        for each in [*self._seen, *(host for host in self._hosts if host not in self._seen)]:
            connection = self._to(
                each, **self._look.options, socket_timeout=self._look_s, socket_connect_timeout=self._look_s
            )
            try:
                connection.connect()
                connection.send_command(*self._look.words)
                found, others = self._look.read(connection.read_response(), each)
            except self._redis.RedisError as error:
                errors.append(error)
                continue
            finally:
                connection.disconnect()
            if found is not None:
                self._seen = others[:_NODES_MAX]
                return found
        if errors:
            raise errors[-1]
        raise self._redis.exceptions.ClusterDownError(self._look.unknown)

    def _to(self, address: Address, **options: Any) -> Connection:
        return self._kind(**{**self._options, "host": address.host, "port": address.port, **options})


class RouteProbe(NamedTuple):
    """
    A command that asks a node for the address of the store's server, and the parser of the node's reply.

    *read* takes the reply and the node's own address. It returns the server's address or None, and more nodes to ask.
    *unknown* is the error text if all nodes answer and none knows the server.
    """

    words: tuple[str, ...]
    read: Callable[[Any, Address], tuple[Address | None, list[Address]]]
    unknown: str
    options: dict[str, Any]


def route_of(redis: Any, location: str, url: str, base: str, call_s: float) -> Route:
    scheme, _, rest = location.partition("://")
    plain, _, kind = scheme.partition("+")
    try:
        if not kind:
            return Route(redis, location, call_s)
        start, _, query = rest.partition("?")
        account, at, start = start.rpartition("@")
        listed, slash, database = start.partition("/")
        options = dict(parse_qsl(query))
        look = _by_slot(redis.crc.key_slot(base.encode())) if kind == "cluster" else _by_sentinel(options)
        hosts = [_address(each, 6379 if kind == "cluster" else 26379) for each in listed.split(",")]
        location = f"{plain}://{account}{at}searched{slash}{database}{'?' if options else ''}{urlencode(options)}"
        return SearchedRoute(redis, location, call_s, hosts, look)
    except (ValueError, TypeError) as error:
        what = f"{url} cannot be understood ({error})"
        remedies = {
            "cluster": "redis+cluster://user:password@host:port,host:port",
            "sentinel": "redis+sentinel://user:password@host:port,host:port/database?master=name",
        }
        raise StoreError(what, f"write {remedies.get(kind, 'redis://user:password@host:port/database')}") from error


def _address(text: str, port: int) -> Address:
    found = _HOST.fullmatch(text)
    if found is None:
        what = f"{text!r} is not a host"
        raise ValueError(what)
    return Address(unquote(found[1]).strip("[]"), int(found[2] or port))


def _by_slot(slot: int) -> RouteProbe:
    def read(reply: Any, asked: Address) -> tuple[Address | None, list[Address]]:
        ranges = [(first, last, [_node(node, asked) for node in nodes]) for first, last, *nodes in reply]
        holder = next((nodes[0] for first, last, nodes in ranges if first <= slot <= last), None)  # master first
        return holder, list(dict.fromkeys(node for *_, nodes in ranges for node in nodes))

    return RouteProbe(("CLUSTER", "SLOTS"), read, f"no node serves slot {slot}", {"db": 0})


def _node(node: Any, asked: Address) -> Address:
    host, port = node[0], node[1]
    return Address(host.decode() if host else asked.host, int(port))


def _by_sentinel(options: dict[str, str]) -> RouteProbe:
    name = options.pop("master")
    account = {key: options.pop(f"sentinel_{key}", None) for key in ("username", "password")}

    def read(reply: Any, asked: Address) -> tuple[Address | None, list[Address]]:
        del asked
        return (Address(reply[0].decode(), int(reply[1])) if reply else None), []

    words = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
    return RouteProbe(words, read, f"no sentinel knows a master named {name!r}", {"db": 0, **account})
