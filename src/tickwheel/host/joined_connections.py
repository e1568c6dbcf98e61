"""
Finds the driver's connection in a `conn=` of SQLAlchemy or Django by class names, so neither library is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tickwheel.jobs.errors import TransactionError

__all__ = ["has_transaction", "refuse_own_wait", "unwrapped", "unwrapped_async"]

_SESSIONS = {"sqlalchemy.orm.session.Session", "sqlalchemy.orm.scoping.scoped_session"}
_CONNECTIONS = {"sqlalchemy.engine.base.Connection"}
_ASYNC_SESSIONS = {"sqlalchemy.ext.asyncio.session.AsyncSession", "sqlalchemy.ext.asyncio.scoping.async_scoped_session"}
_ASYNC_CONNECTIONS = {"sqlalchemy.ext.asyncio.engine.AsyncConnection"}
_DJANGO = {"django.utils.connection.ConnectionProxy", "django.db.backends.base.base.BaseDatabaseWrapper"}


def unwrapped(connection: Any) -> object:
    """
    Return the driver's connection of a `Session`, `Connection` or Django's `connection`; return others unchanged.

    SQLAlchemy begins its transaction now. A connection that cannot join a transaction raises a `TransactionError`.
    """
    names = _names(connection)
    if names & _DJANGO:
        return _of_django(connection)
    if names & (_ASYNC_SESSIONS | _ASYNC_CONNECTIONS):
        what = f"is a {type(connection).__qualname__}"
        raise TransactionError(what, "pass it to AsyncScheduler, or a Session or Connection to Scheduler")
    if not names & (_SESSIONS | _CONNECTIONS):
        return connection
    with _refused():
        if names & _SESSIONS:
            connection = connection.connection()
        if not connection.in_transaction():
            connection.begin()
        driver: object = connection.connection.driver_connection
    return driver


async def unwrapped_async(connection: Any) -> object:
    names = _names(connection)
    if not names & (_ASYNC_SESSIONS | _ASYNC_CONNECTIONS):
        return unwrapped(connection)
    with _refused():
        if names & _ASYNC_SESSIONS:
            connection = await connection.connection()
        if not connection.in_transaction():
            await connection.begin()
        driver: object = (await connection.get_raw_connection()).driver_connection
    if "aiosqlite.core.Connection" in _names(driver):
        what = "is on aiosqlite, which keeps its connection to a thread of its own"
        raise TransactionError(what, "pass a Session or Connection on sqlite3")
    return driver


def refuse_own_wait(url: str) -> None:
    """
    Refuse a write without `conn=` to a SQLite file that a Django transaction of this thread may have locked.

    If the write were allowed, the writer and the transaction could wait for each other.
    """
    django, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    path = url.removeprefix("sqlite:///")
    if django is None or conf is None or not conf.settings.configured or path == url:  # no Django, or no SQLite
        return
    for each in django.connections.all(initialized_only=True):
        if each.vendor == "sqlite" and has_transaction(each) and _is_same(each.settings_dict["NAME"], path):
            what = f"is missing within a transaction of Django's on {path!r}, whose end this write would wait for"
            remedy = f"pass conn=connections[{each.alias!r}] if it takes that, or call it after the commit"
            raise TransactionError(what, f"{remedy}, as with transaction.on_commit()")


def has_transaction(connection: Any) -> bool:
    if connection.in_atomic_block:
        return True
    is_open = connection.connection is not None
    return not (connection.autocommit if is_open else connection.settings_dict["AUTOCOMMIT"])


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if "sqlalchemy.exc.InvalidRequestError" not in _names(error):
            raise
        what = f"cannot be used ({str(error).partition(chr(10))[0]})"
        raise TransactionError(what, "pass one that is open, after a rollback if it has failed") from error


def _of_django(connection: Any) -> object:
    if not has_transaction(connection):
        raise TransactionError("commits each statement at once", "call it within transaction.atomic()")
    if connection.needs_rollback:
        raise TransactionError("has a transaction that has failed", "roll it back first")
    if connection.connection is None:  # autocommit is off, and no statement has opened it yet
        connection.ensure_connection()
    driver: object = connection.connection
    return driver


def _names(connection: object) -> set[str]:
    return {f"{base.__module__}.{base.__qualname__}" for base in type(connection).__mro__}


def _is_same(name: object, path: str) -> bool:
    try:
        return Path(str(name)).samefile(path)
    except OSError:  # a database in memory, or a missing file
        return False
