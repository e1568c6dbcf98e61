"""
Statements that a connection has prepared, executed without the driver's cursors.

For the write of one job, a cursor takes longer than all other work of the client. This module uses the driver's
documented binding of libpq, and waits for answers as the driver's cursors do.
"""

from __future__ import annotations

import itertools
import re
import selectors
from collections.abc import Generator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tickwheel.stores.postgres._arrays import Texts

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

__all__ = ["Prepared", "next_result", "sent"]

_PLACEHOLDER: Final = re.compile(r"%(?:s|\((\w+)\)s|(%))")
_GOOD: Final = frozenset({1, 2})  # COMMAND_OK and TUPLES_OK, as in the library's documentation; an enum is slow
_UNKNOWN_NAME: Final = "26000"
_EVENTS: Final = selectors.EVENT_READ | selectors.EVENT_WRITE


class Prepared:
    """
    The statements that one connection has prepared, keyed by their text. Used by one thread at a time.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._names: dict[str, bytes] = {}
        self._unsure: dict[str, bytes] = {}
        self._last = 0
        self._transformer: Any = None

    def prepare(self, text: str) -> None:
        self.forget_unsure()
        if self.send_new(text):
            self.check(self._connection.wait(_only_result(self._connection.pgconn)))
            self.confirm(text)

    def execute(self, text: str, values: dict[str, Any]) -> PGresult:
        try:
            return self._execute(text, values)
        except Exception as error:
            if getattr(error, "sqlstate", None) != _UNKNOWN_NAME:
                raise
            self._names.clear()  # the driver's rollback deallocates all statements
            self.prepare(text)
            return self._execute(text, values)

    def _execute(self, text: str, values: dict[str, Any]) -> PGresult:
        self.send(text, values)
        return self.check(self._connection.wait(_only_result(self._connection.pgconn)))

    def send_new(self, text: str) -> bool:
        """
        Send a statement to be prepared; return False if it is not new. Call `confirm` after the preparation.
        """
        if text in self._names or text in self._unsure:
            return False
        self._last += 1
        name = self._unsure[text] = b"tickwheel_%d" % self._last
        self._connection.pgconn.send_prepare(name, _numbered(text)[0])
        return True

    def confirm(self, text: str) -> None:
        self._names[text] = self._unsure.pop(text)

    def deallocate(self) -> None:
        """
        Deallocate all statements. Call this after a rollback by the driver, which may have deallocated them.
        """
        if self._names:
            self._names.clear()
            self._command(b"DEALLOCATE ALL")

    def roll_back(self) -> None:
        """
        Roll back an open transaction, if any. Unlike the driver's rollback, this keeps the prepared statements.
        """
        if self._connection.info.transaction_status:
            self._command(b"ROLLBACK")

    def _command(self, command: bytes) -> None:
        self._connection.pgconn.send_query(command)
        self.check(self._connection.wait(_only_result(self._connection.pgconn)))

    def forget_unsure(self) -> None:
        self._unsure.clear()

    def send(self, text: str, values: Any) -> None:
        if isinstance(values, dict):
            values = [values[name] for name in _numbered(text)[1]]
        data: list[bytes | None] = []
        are_binary: list[bool] = []
        for value in values:
            kind = type(value)
            if kind is str:
                data.append(value.encode())
                are_binary.append(True)
            elif value is None or isinstance(value, bytes):
                data.append(value)
                are_binary.append(True)
            elif kind is list or kind is tuple:
                data.append(_array_of(value))
                are_binary.append(_has_texts(value))
            else:
                data.append(str(value).encode())
                are_binary.append(False)
        name = self._names.get(text) or self._unsure[text]
        self._connection.pgconn.send_query_prepared(name, data, are_binary)

    def rows_of(self, result: PGresult) -> list[tuple[Any, ...]]:
        if self._transformer is None:
            from psycopg.adapt import Transformer  # noqa: PLC0415 on use: the extra is optional

            self._transformer = Transformer(self._connection)
        self._transformer.set_pgresult(result)
        rows: list[tuple[Any, ...]] = self._transformer.load_rows(0, result.ntuples, tuple)
        return rows

    def check(self, result: PGresult | None) -> PGresult:
        if result is not None and result.status in _GOOD:
            return result
        from psycopg.errors import InternalError, error_from_result  # noqa: PLC0415 on use: the extra is optional

        raise InternalError("the server did not answer") if result is None else error_from_result(result)


def sent(pgconn: PGconn) -> Generator[int, int, None]:
    while pgconn.flush():
        if (yield _EVENTS) & selectors.EVENT_READ:
            pgconn.consume_input()


def next_result(pgconn: PGconn) -> Generator[int, int, PGresult | None]:
    while pgconn.is_busy():
        yield selectors.EVENT_READ
        pgconn.consume_input()
    return pgconn.get_result()


def _only_result(pgconn: PGconn) -> Generator[int, int, PGresult | None]:
    yield from sent(pgconn)
    found: PGresult | None = None
    while (result := (yield from next_result(pgconn))) is not None:
        found = result
    return found


@lru_cache
def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    names: dict[str, int] = {}
    places = itertools.count(1)

    def place_of(found: re.Match[str]) -> str:
        if found[2]:
            return "%"
        return f"${next(places) if found[1] is None else names.setdefault(found[1], len(names) + 1)}"

    return _PLACEHOLDER.sub(place_of, text).encode(), tuple(names)


def _has_texts(values: Sequence[Any]) -> bool:
    return any(isinstance(each, str) for each in values)


def _array_of(values: Sequence[Any]) -> bytes:
    if _has_texts(values):
        return Texts.of(values)
    return b"{%s}" % ",".join("NULL" if value is None else str(value) for value in values).encode()
