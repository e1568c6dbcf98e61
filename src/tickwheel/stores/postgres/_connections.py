"""
Connections to the server, made with the driver psycopg.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from selectors import EVENT_READ
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from tickwheel.errors import MissingExtraError
from tickwheel.jobs.errors import StoreError, TransactionError
from tickwheel.stores._lifetime import Lifetime
from tickwheel.stores.postgres._arrays import ARRAY_TYPES, Array
from tickwheel.stores.postgres._errors import state_of_refusal, store_error
from tickwheel.stores.postgres._pipelined import Pipelined
from tickwheel.stores.postgres._steps import Steps, run
from tickwheel.stores.postgres._timed import ready, timed_connection
from tickwheel.threads import Lock

if TYPE_CHECKING:
    from types import ModuleType

    import psycopg

    Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
else:
    Connection = Any

__all__ = ["Connection", "Connections"]

_T = TypeVar("_T")

_NO_TRANSACTION: Final = 0
"""libpq's status of a connection without a transaction, as a number, because the driver's enum costs four calls."""


@cache
def _dumpers() -> list[tuple[type[Array], Any]]:
    return [(kind, _dumper(kind)) for kind in ARRAY_TYPES]  # made once, because the driver never frees a class


def _dumper(kind: type[Array]) -> Any:
    from psycopg.adapt import Dumper  # noqa: PLC0415 - on use
    from psycopg.pq import Format  # noqa: PLC0415 on use: the extra is optional

    class ArrayDumper(Dumper):
        format = Format.BINARY
        oid = kind.oid

        def dump(self, obj: bytes) -> bytes:
            return obj

    return ArrayDumper


@cache
def _loaders() -> list[tuple[str, Any]]:
    from psycopg.types import bool, numeric, string  # noqa: A004, PLC0415 - on use, by their names

    integers = [(name, numeric.IntLoader) for name in ("int2", "int4", "int8", "oid")]
    texts = [(name, string.TextLoader) for name in ("name", "text")]
    return [*integers, *texts, ("bool", bool.BoolLoader), ("bytea", string.ByteaLoader)]


# Every statement walks an index and stops at its limit. With the statistics of an empty table the server might choose
# a bitmap scan instead, which reads and sorts all future jobs.
_SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",  # by default, half of our statements are planned at each execution
    "synchronous_commit": "on",
}
_ENCODING: Final = "UTF8"
"""Client encoding of all connections. The class `Array` relies on it."""
_DATABASES: Final = frozenset({"UTF8", "SQL_ASCII"})
"""Accepted encodings of databases. In these, texts are sorted by code points, as the search for a prefix requires."""
_IDLE: Final = "idle_in_transaction_session_timeout"
_LINK: Final = {
    "application_name": "tickwheel",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}
"""Default settings of a connection; the URL may override them."""
_STATEMENT: Final = 0.9
"""Fraction of a call's time limit after which the server ends a statement, so that the answer arrives in time."""
_LOCK: Final = 0.8
"""Fraction of a call's time limit for which a statement waits for a lock."""
_CONNECTING_LEAST_S: Final = 2
"""The driver's minimum time limit for connecting, in seconds."""


def _timeouts(seconds: float) -> dict[str, str]:
    return {
        "statement_timeout": str(int(seconds * _STATEMENT * 1000)),
        "lock_timeout": str(int(seconds * _LOCK * 1000)),
        _IDLE: str(int(seconds * 1000)),
    }


class _Lending:
    """
    Lends a connection to a `with` block. A class, because a generator would take as long as a short statement.
    """

    __slots__ = ("_call_s", "_connection", "_connections")

    def __init__(self, connections: Connections, call_s: float) -> None:
        self._connections = connections
        self._call_s = call_s

    def __enter__(self) -> Connection:
        self._connection = self._connections.lend(self._call_s)
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if error is not None:
                self._connections.raise_translated(error, self._connection)
        finally:
            self._connections.take_back(self._connection)


class Connections:
    """
    A pool with a connection for each concurrent reader and writer. Thread-safe.

    The next call replaces a lost connection. If a server does not answer in time, the connection of that call and all
    idle connections are closed; calls on other connections continue.

    A pooler in transaction mode lends a server's session for one transaction. Nothing may be left in the session, so
    each statement runs in a transaction that contains its settings, and no statement is prepared.
    """

    def __init__(self, conninfo: str, url: str, *, call_s: float, is_pooled: bool = False) -> None:
        """
        Open the first connection.

        The server also enforces *call_s*, because a writer that stops in the middle of a transaction must not block the
        takeover of its shards. *is_pooled* is True if the server is behind a pooler in transaction mode.
        """
        try:
            import psycopg  # noqa: PLC0415 - on use
        except ImportError as error:
            # psycopg may be installed without libpq and then cannot be imported. Its own wheels contain libpq.
            library = "psycopg" if find_spec("psycopg") is None else "libpq, which psycopg needs,"
            raise MissingExtraError(library, "postgres-binary") from error
        self._psycopg = psycopg
        self._conninfo, self._url, self._call_s = conninfo, url, call_s
        settings = {**_SETTINGS, **_timeouts(call_s)}
        self._is_pooled = is_pooled
        self._begins = ["BEGIN"]
        if is_pooled:
            values = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
            self._begins.append(f"SELECT {values}")
        self._session = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._has_pipelines = not is_pooled and psycopg.Pipeline.is_supported()
        self._lock = Lock()
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self.lifetime = Lifetime(url)
        self._idle.append(self.connect())
        self._check_encoding(self._idle[0])
        if not is_pooled:
            self._check_session(settings[_IDLE])

    def _check_encoding(self, connection: Connection) -> None:
        found = connection.info.parameter_status("server_encoding")
        if found not in _DATABASES:
            self.close()
            what = f"{self._url}: the database is in {found}, which cannot hold every text"
            raise StoreError(
                what, "name one in UTF8, as made by CREATE DATABASE jobs ENCODING 'UTF8' TEMPLATE template0"
            )

    def _check_session(self, expected: str) -> None:
        with self.reading() as connection:
            row = connection.execute("SELECT setting FROM pg_settings WHERE name = %s", (_IDLE,)).fetchone()
        if row is None or row[0] != expected:
            self.close()
            what = f"{self._url}: a pooler drops the settings of the session ({_IDLE} is {row and row[0]})"
            raise StoreError(what, "add pooler=transaction to the URL, or connect to the server itself")

    def connect(self, conninfo: str | None = None) -> Connection:
        conninfo = conninfo or self._conninfo
        try:
            given = self._psycopg.conninfo.conninfo_to_dict(conninfo)
            own = {
                **_LINK,
                "connect_timeout": str(max(math.ceil(self._call_s), _CONNECTING_LEAST_S)),
                "tcp_user_timeout": str(int(self._call_s * 1000)),
            }
            link: dict[str, Any] = {name: value for name, value in own.items() if name not in given}
            if self._is_pooled:
                link["prepare_threshold"] = None
            else:
                # Our options would replace the given ones, so pass both.
                options = given.get("options", os.environ.get("PGOPTIONS", ""))
                link["options"] = f"{options} {self._session}"
            kind = timed_connection()
            connection: Any = kind.connect(conninfo, autocommit=True, client_encoding=_ENCODING, **link)
        except self._psycopg.Error as error:
            raise self._refused(error) from error
        connection.call_s = self._call_s
        self.teach(connection.adapters)
        return connection  # type: ignore[no-any-return]

    def teach(self, adapters: Any) -> None:
        for kind, dumper in _dumpers():
            adapters.register_dumper(kind, dumper)

    @contextmanager
    def writing(self, call_s: float = 0.0, *, is_pipelined: bool = True) -> Iterator[Connection]:
        """
        Open a transaction; commit it at the end, or roll it back if the block raises.

        A pipelined statement is sent with the next fetch of rows, or with the commit. The error of a statement may be
        raised only at the next fetch. Set *is_pipelined* to False to count changed rows, or for a text of several
        statements. *call_s* raises the time limit.
        """
        is_committing = False
        with self._lent(call_s) as connection:
            lent: Any = connection
            try:
                with self._pipeline(connection) if is_pipelined else nullcontext():
                    for statement in self._begins:
                        connection.execute(statement)
                    if call_s > self._call_s:
                        for name, value in _timeouts(call_s).items():
                            connection.execute(f"SET LOCAL {name} = {value}")
                    yield connection
                    lent.has_warned, is_committing = False, True
                    connection.execute("COMMIT")
            except BaseException as error:
                is_connected = not connection.closed
                with suppress(self._psycopg.Error):
                    connection.rollback()  # the driver then also forgets statements that the pipeline failed to prepare
                    lent.prepared.deallocate()
                if is_committing and isinstance(error, self._psycopg.Error):
                    raise store_error(error, self._url, is_connected=is_connected, is_committing=True) from error
                raise
            if lent.has_warned:  # the wait for a standby was cancelled: the server only warns
                raise self._unconfirmed()

    def alone(
        self,
        text: str,
        values: dict[str, Any],
        call_s: float = 0.0,
        *,
        returns_job: bool = False,
        is_read: bool = False,
    ) -> tuple[Any, ...] | None:
        """
        Execute a statement that is a transaction of its own; return its only row, or None.

        The row is a job if *returns_job* is True; if not, it has integers and arrays of integers.

        The call costs one round trip. If the connection is lost, the outcome is unknown, unless *is_read* is True.
        *call_s* is as in `writing`.
        """
        if self._is_pooled or call_s > self._call_s:
            with self.writing(call_s) as connection:
                cursor = connection.execute(text, values)
            return next(iter(cursor.fetchall()), None)
        with self._lent() as lent:
            one: Any = lent
            one.has_warned = False
            while ready(one.pgconn.socket, EVENT_READ, 0.0):  # an idle connection receives only its close
                one.pgconn.consume_input()
            one.prepared.prepare(text)
            try:
                result = one.prepared.execute(text, values)
            except self._psycopg.Error as error:
                raise store_error(error, self._url, is_connected=not one.closed, is_committing=not is_read) from error
            if one.has_warned:
                raise self._unconfirmed()
            if not result.ntuples:
                return None
            if returns_job:
                return one.prepared.rows_of(result)[0]  # type: ignore[no-any-return]
            return tuple(_value_of(result.get_value(0, column)) for column in range(result.nfields))

    def run(self, steps: Steps[_T], call_s: float) -> _T:
        """
        Execute the statements of *steps* (see `_steps.Steps`) in a transaction, without the driver's cursors.

        This halves the client's time for a single write.
        """
        if not self._has_pipelines:
            with self.writing(call_s) as connection:
                return run(connection, steps)
        begins = [*self._begins]
        if call_s > self._call_s:
            begins += [f"SET LOCAL {name} = {value}" for name, value in _timeouts(call_s).items()]
        with self._lent(call_s) as lent:
            one: Any = lent
            pipelined = Pipelined(one)
            try:
                result = pipelined.run(begins, steps)
            except BaseException as error:
                is_connected = not one.closed
                with suppress(self._psycopg.Error):
                    one.prepared.roll_back()
                if pipelined.is_committing and isinstance(error, self._psycopg.Error):
                    raise store_error(error, self._url, is_connected=is_connected, is_committing=True) from error
                raise
            if one.has_warned:
                raise self._unconfirmed()
            return result

    def _unconfirmed(self) -> StoreError:
        what = f"{self._url}: no standby has confirmed the commit"
        return StoreError(what, "see that the synchronous standbys run", is_transient=True, is_unknown=True)

    @contextmanager
    def _pipeline(self, connection: Connection) -> Iterator[None]:
        if not self._psycopg.Pipeline.is_supported():
            yield
            return
        first: BaseException | None = None
        try:
            with connection.pipeline():
                try:
                    yield
                except BaseException as error:  # noqa: BLE001 - the pipeline would log the errors that follow
                    first = error
        except self._psycopg.Error as error:
            first = first or error
        if first is not None:
            raise first

    def reading(self) -> AbstractContextManager[Connection]:
        """
        Lend a connection in autocommit mode. Behind a pooler, the statements of the block form one transaction.
        """
        return self.writing() if self._is_pooled else self._lent()

    def _lent(self, call_s: float = 0.0) -> _Lending:
        return _Lending(self, call_s)

    def lend(self, call_s: float) -> Connection:
        with self._lock:
            self.lifetime.check()
            connection: Any = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self.connect()
        connection.left_s = max(call_s, self._call_s)
        with self._lock:
            self._busy.add(connection)
        return connection  # type: ignore[no-any-return]

    def take_back(self, connection: Connection) -> None:
        with self._lock:
            self._busy.discard(connection)
            # Ctrl-C or a signal handler may raise an exception anywhere in a call. Do not lend the connection again if
            # it is in a transaction.
            if connection.pgconn.transaction_status == _NO_TRANSACTION and not self.lifetime.is_closed:
                self._idle.append(connection)
            else:
                if connection.closed:  # the server closed it or is silent: idle connections are probably also lost
                    self._close_idle()
                connection.close()

    def join(self, connection: Any, *, is_async: bool) -> Any:
        """
        Return a cursor on a caller's *connection* that ignores the caller's row factory and type settings.

        Raises a StoreError in the child of a fork, and a TransactionError if the connection has no transaction to join.
        """
        self.lifetime.check()
        _check_joinable(self._psycopg, connection, is_async=is_async)
        kind = self._psycopg.AsyncCursor if is_async else self._psycopg.Cursor
        cursor = kind(connection, row_factory=self._psycopg.rows.tuple_row)
        self.teach(cursor.adapters)
        for name, loader in _loaders():
            cursor.adapters.register_loader(name, loader)
        return cursor

    @contextmanager
    def translated(self, connection: Connection) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.raise_translated(error, connection)
            raise

    def raise_translated(self, error: BaseException, connection: Connection) -> None:
        if isinstance(error, (self._psycopg.Error, UnicodeError, OverflowError)):
            raise store_error(error, self._url, is_connected=not connection.closed) from error

    def close(self) -> None:
        with self._lock:
            self.lifetime.is_closed = True
            self._close_idle()
            busy = list(self._busy)
        for connection in busy:
            connection.stop()

    def _close_idle(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _refused(self, error: psycopg.Error) -> StoreError:
        text = str(error)
        if error.sqlstate is None:
            error.sqlstate = state_of_refusal(text)
        if error.sqlstate is not None:
            return store_error(error, self._url, is_connected=False)
        if isinstance(error, self._psycopg.ProgrammingError):
            what = f"{self._url} cannot be understood ({text.strip()})"
            return StoreError(what, "write postgres://user:password@host:port/database")
        return store_error(error, self._url, is_connected=False)


def _value_of(text: bytes | None) -> int | list[int] | None:
    if text is None:
        return None
    return [*map(int, text[1:-1].split(b","))] if text.startswith(b"{") else int(text)


def _check_joinable(psycopg: ModuleType, connection: Any, *, is_async: bool) -> None:
    kind, other = psycopg.Connection, psycopg.AsyncConnection
    if is_async:
        kind, other = other, kind
    if not isinstance(connection, kind):
        what = f"is a {type(connection).__module__}.{type(connection).__qualname__}"
        face = "AsyncScheduler" if not is_async else "Scheduler"
        hint = f", or use {face}" if isinstance(connection, other) else ""
        raise TransactionError(what, f"pass a psycopg.{kind.__name__}{hint}")
    if connection.closed:
        raise TransactionError("is closed", "pass one that is open")
    encoding = connection.info.parameter_status("client_encoding")
    if encoding != "UTF8":
        what = f"has client_encoding {encoding}"
        raise TransactionError(what, "connect with client_encoding=utf8")
    status = connection.info.transaction_status
    states = psycopg.pq.TransactionStatus
    if status == states.INERROR:
        raise TransactionError("has a transaction that has failed", "roll it back first")
    if status == states.ACTIVE or connection.pgconn.pipeline_status:
        raise TransactionError("is in the middle of something", "end the copy or leave the pipeline first")
    if status == states.IDLE and connection.autocommit:
        raise TransactionError("commits each statement at once", "begin a transaction: with conn.transaction()")
