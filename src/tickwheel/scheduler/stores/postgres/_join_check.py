"""
The check whether a caller's connection can be joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tickwheel.scheduler.errors import TransactionError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["check"]


def check(psycopg: ModuleType, connection: Any, *, is_async: bool) -> None:
    """
    Raise `TransactionError` unless *connection* is of the right kind and has a transaction, or will begin one.
    """
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
