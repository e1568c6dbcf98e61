from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import signature
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_plus, urlencode

from tickwheel.clock import Clock
from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.near import near
from tickwheel.stores._memory import MemoryStore
from tickwheel.stores.contract import Store

__all__ = ["make_store", "masked", "open_store"]

_PASSWORD: Final = re.compile(r"(?<=://)(?P<user>[^:@/?]*):.*@", re.DOTALL)
_POSTGRES: Final = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_OPTION: Final = re.compile(r"(?<=[?&])(?P<name>[^=&]*)=(?P<value>[^&]*)")
_WRONG_ESCAPE: Final = re.compile(r"%(?!(?!00)[0-9a-f]{2})", re.IGNORECASE)
_OWN: Final = re.compile(r"(?P<module>[^\W\d][\w.]*):(?P<name>[^\W\d]\w*)(?:\?(?P<query>.*))?", re.DOTALL)
_SECRETS: Final = ("password", "passphrase", "secret", "token")
"""If the name of an option ends with one of these texts, its value is masked in messages."""
_METHODS: Final = ("abilities", "url", *(name for name in vars(Store) if not name.startswith("_")))
_OPEN_BRACKET: Final = re.compile(r"\[(?![^][]*\])")


def open_store(url: str, clock: Clock | None = None) -> Store:
    """
    Create the store of *url* (see `make_store`), and open it. Raise a StoreError if the store cannot be opened.
    """
    store = make_store(url, clock)
    store.open()
    return store


def make_store(url: str, clock: Clock | None = None) -> Store:
    """
    Create the store that *url* names, without opening it.

    * `memory://`
    * `sqlite:///relative.db`, `sqlite:////absolute.db`: the path is taken literally, without %-escapes.
      `?synchronous=normal` makes SQLite faster and less safe.
    * `postgres://user:password@host:port/database`, with `shards=` (minimum number of shards), `lease_s=`,
      `pooler=transaction` behind a pooler in transaction mode, `listen=poll` or the server's own URL, and libpq's
      options.
    * `redis://user:password@host:port/database`, `rediss://` for TLS, `unix:///path/of/socket?db=0`, with `prefix=`,
      `shards=`, `lease_s=`, and `replicas=` (the number of replicas that must have a write before it is answered).
    * `redis+cluster://host:port,host:port` names some nodes of a cluster. `partitions=` divides the jobs into this
      number of parts. `redis+sentinel://host:port,host:port/database?master=name` names some sentinels. `rediss+...`
      uses TLS.
    * `package.module:Class?name=value` names your own store, a class that takes `clock=` and the options as text.

    Args:
        url: The store's URL. Its scheme selects the kind of store.
        clock: Wall clock for a store that has no clock of its own.

    Raises:
        StoreError: If *url* does not name a store.
    """
    if found := _OWN.fullmatch(url):
        return _own(url, found["module"], found["name"], found["query"] or "", clock)
    scheme, separator, rest = url.partition("://")
    make = _MAKERS.get(scheme.lower()) if separator else None
    if make is None:
        what, meant = f"no store is named by {masked(url)!r}", _meant(scheme.lower(), separator, rest)
        remedy = f"begin with {' or '.join(f'{known}://' for known in sorted(_MAKERS))}"
        raise StoreError(what, remedy if meant is None else f"{remedy} (did you mean {masked(meant)!r}?)")
    path, _, query = rest.partition("?")
    return make(url, path, dict(parse_qsl(query, keep_blank_values=True)), clock)


def _own(url: str, module: str, name: str, query: str, clock: Clock | None) -> Store:
    options = dict(parse_qsl(query, keep_blank_values=True))
    try:
        kind = getattr(import_module(module), name)
        signature(kind).bind(**options, clock=clock)
    except ModuleNotFoundError as error:
        if not module.startswith(error.name or " "):
            raise
        what, meant = f"{masked(url)!r} names no module", _meant(url, "", "")
        remedy = "see that it can be imported from here"
        raise StoreError(what, remedy if meant is None else f"{remedy} (did you mean {meant!r}?)") from error
    except AttributeError as error:
        what = f"{masked(url)!r}: {error}"
        raise StoreError(what, "name a class or function of the module that makes a store") from error
    except (TypeError, ValueError) as error:
        what = f"{masked(url)!r}: {name} cannot be called with these options ({error})"
        raise StoreError(what, "write ?name=value for each of its arguments; it also gets clock=") from error
    store: Store = kind(**options, clock=clock)
    if missing := [each for each in _METHODS if not hasattr(store, each)]:
        what = f"{masked(url)!r} is not a store: {type(store).__name__} lacks {', '.join(missing[:5])}"
        raise StoreError(what, "derive it from tickwheel.stores.BaseStore, or keep tickwheel.stores.Store")
    return store


def _meant(scheme: str, separator: str, rest: str) -> str | None:
    if not separator:
        return f"sqlite:///{scheme}" if scheme.endswith((".db", ".sqlite", ".sqlite3")) and ":" not in scheme else None
    known = near(scheme, _MAKERS) or scheme.partition("+")[0]
    return f"{known}://{rest}" if known in _MAKERS else None


def masked(url: str) -> str:
    """
    Return *url* with `***` in place of its password and of the values of secret options.
    """
    return _OPTION.sub(_masked_option, _PASSWORD.sub(r"\g<user>:***@", url))


def _masked_option(found: re.Match[str]) -> str:
    name, value = unquote_plus(found["name"]).lower(), unquote_plus(found["value"])
    is_secret = name.endswith(_SECRETS) or masked(value) != value  # such as the URL of another server
    return f"{found['name']}=***" if is_secret else found[0]


def _check_account(url: str, path: str, options: Iterable[str], ends: str = "/") -> None:
    # drivers' errors would show the part of the password that follows such a character
    authority = re.split(f"[{ends}]", path, maxsplit=1)[0]
    rest = path[len(authority) :]
    if authority and "@" not in authority and any("@" in each for each in (rest, *options)):
        raise _unescaped(url)


def _check_postgres(url: str, path: str, options: Iterable[str]) -> None:
    # libpq's error would show the password
    _check_account(url, path, options)
    authority = path.partition("/")[0]
    host = authority.rpartition("@")[2]
    if authority.count("@") > 1 or _WRONG_ESCAPE.search(path) or _OPEN_BRACKET.search(host):
        raise _unescaped(url)


def _unescaped(url: str) -> StoreError:
    what = f"{masked(url)!r} cannot be understood"
    return StoreError(what, "%-escape the user's name and the password, such as %40 for @, %2F for / and %25 for %")


def _memory(url: str, path: str, options: dict[str, str], clock: Clock | None) -> Store:
    _refuse_unknown(url, options, ())
    if path:
        what = f"{masked(url)!r} has a path, and a store in memory has none"
        raise StoreError(what, "write memory://")
    return MemoryStore(clock)


def _sqlite(url: str, path: str, options: dict[str, str], clock: Clock | None) -> Store:
    from tickwheel.stores.sqlite import SqliteStore  # noqa: PLC0415  a store's package is imported on use

    _refuse_unknown(url, options, ("synchronous",))
    synchronous = options.get("synchronous", "full").lower()
    if synchronous not in ("full", "normal"):
        what = f"synchronous is {synchronous!r} in {masked(url)!r}"
        raise StoreError(what, "write full or normal")
    if not path.startswith("/") or not path.strip("/") or "\0" in path:
        what = f"{masked(url)!r} names no file"
        raise StoreError(what, "write sqlite:///relative.db or sqlite:////absolute.db")
    if path == "/:memory:":
        what = f"{masked(url)!r} asks SQLite for a database in memory, which would survive nothing"
        raise StoreError(what, "write memory://")
    return SqliteStore(path[1:], synchronous=synchronous, clock=clock)


def _refuse_unknown(url: str, options: dict[str, str], known: tuple[str, ...]) -> None:
    for name in options:
        if name not in known:
            what = f"{masked(url)!r} has the option {name!r}"
            raise StoreError(what, f"known are: {', '.join(known) or 'none'}")


def _postgres(url: str, path: str, options: dict[str, str], _clock: Clock | None) -> Store:
    from tickwheel.stores.postgres import PostgresStore  # noqa: PLC0415  imported on use

    shards = _number(url, options.pop("shards", "0"), "shards", 256)
    lease_s = _number(url, options.pop("lease_s", "10"), "lease_s", 3_600, least=1)
    _check_postgres(url, path, options)
    pooler, listen = options.pop("pooler", ""), options.pop("listen", None)
    if pooler not in ("", "transaction"):
        what = f"pooler is {pooler!r} in {masked(url)!r}"
        raise StoreError(what, "write transaction, or leave it out")
    if listen is None:
        listen = "poll" if pooler else ""
    elif listen != "poll" and not _POSTGRES.match(listen):
        what = f"listen is {masked(listen)!r} in {masked(url)!r}"
        raise StoreError(what, "write poll, or the URL of the server itself, %-escaped")
    else:
        there, _, query = listen.partition("://")[2].partition("?")
        _check_postgres(url, there, (name for name, _ in parse_qsl(query, keep_blank_values=True)))
    return PostgresStore(
        f"postgresql://{path}{'?' if options else ''}{urlencode(options, quote_via=quote)}",
        url=masked(url),
        shards=shards or None,
        lease_s=lease_s,
        is_pooled=bool(pooler),
        listen=None if listen == "poll" else listen,
    )


def _number(url: str, text: str, name: str, largest: int, *, least: int = 0) -> int:
    if not text.isdecimal() or len(text) > 9 or not least <= int(text) <= largest:  # noqa: PLR2004  far above any use
        what = f"{name} is {text[:20]!r} in {masked(url)!r}"
        raise StoreError(what, f"write a whole number in {least}..{largest}")
    return int(text)


_REDIS_TLS: Final = ("ssl_ca_certs", "ssl_cert_reqs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile")
_REDIS_OWN: Final = ("shards", "lease_s", "prefix", "replicas", "partitions")
_SENTINELS: Final = ("master", "sentinel_username", "sentinel_password")


def _redis(url: str, _path: str, options: dict[str, str], _clock: Clock | None) -> Store:
    from tickwheel.stores.redis import (  # noqa: PLC0415  imported on use
        Partition,
        PartitionedRedisStore,
        RedisStore,
    )

    shards = _number(url, options.pop("shards", "0"), "shards", 256)
    lease_s = _number(url, options.pop("lease_s", "10"), "lease_s", 3_600, least=1)
    prefix = options.pop("prefix", "tickwheel")
    if not prefix or not prefix.isprintable() or set(prefix) & set("{}"):
        what = f"prefix is {prefix!r} in {masked(url)!r}"
        raise StoreError(what, "write some printable characters without braces")
    replicas = _number(url, options.pop("replicas", "0"), "replicas", 16)
    count = _number(url, options.pop("partitions", "1"), "partitions", 64) or 1
    scheme, _, rest = url.partition("?")[0].partition("://")
    _check_account(url, rest, options, ends="/#")
    sentinels = _SENTINELS if scheme.lower().endswith("sentinel") else ()
    # Other options would change the form of the driver's answers.
    tls = _REDIS_TLS if scheme.lower().startswith("rediss") else ()
    known = (*_REDIS_OWN, "db", "username", "password", *tls, *sentinels)
    _refuse_unknown(url, options, known)
    if sentinels and not options.get("master"):
        what = f"{masked(url)!r} does not name the primary that the sentinels watch"
        raise StoreError(what, "add ?master=name")
    database = rest.rpartition("@")[2].partition("/")[2] if scheme.lower() != "unix" else options.get("db", "")
    if database and not database.isdecimal():
        what = f"{masked(url)!r} names the database {database!r}"
        raise StoreError(what, "write its number")
    if scheme.lower().endswith("cluster") and int(database or 0):
        what = f"{masked(url)!r} names the database {database}, and a cluster has database 0 only"
        raise StoreError(what, "leave it out")
    location = f"{scheme.lower()}://{rest}{'?' if options else ''}{urlencode(options)}"
    stores = [
        RedisStore(
            location,
            url=masked(url),
            shards=-(-shards // count) or None,
            lease_s=lease_s,
            prefix=prefix,
            replicas=replicas,
            partition=Partition(number, count),
        )
        for number in range(count)
    ]
    return stores[0] if count == 1 else PartitionedRedisStore(stores, url=masked(url), lease_s=lease_s)


_MAKERS: Final[dict[str, Callable[[str, str, dict[str, str], Clock | None], Store]]] = {
    "memory": _memory,
    "postgres": _postgres,
    "postgresql": _postgres,
    "redis": _redis,
    "redis+cluster": _redis,
    "redis+sentinel": _redis,
    "rediss": _redis,
    "rediss+cluster": _redis,
    "rediss+sentinel": _redis,
    "sqlite": _sqlite,
    "unix": _redis,
}
