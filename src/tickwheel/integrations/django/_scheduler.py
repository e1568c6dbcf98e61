"""
The scheduler that the settings describe.
"""

from __future__ import annotations

from typing import Any, Final, Unpack
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from tickwheel.scheduler import Answer, Scheduler, SchedulerOptions
from tickwheel.scheduler.errors import TransactionError
from tickwheel.scheduler.targets import make_target
from tickwheel.scheduler.verbs.jobs import Verb
from tickwheel.scheduler.verbs.requests import SetFields

__all__ = ["configured", "prepare"]

_NAME: Final = "TICKWHEEL"
_KNOWN: Final = ("DATABASE", "OPTIONS", "STORE", "TARGETS")
_NOT_OF_LIBPQ: Final = ("assume_role", "isolation_level", "pool", "server_side_binding")


class _JoiningScheduler(Scheduler):
    """
    A scheduler in a database of Django's, whose writes join the transaction that is open there, or are refused in it.
    """

    def __init__(self, store: str, alias: str, **options: Any) -> None:
        super().__init__(store, **options)
        self._alias = alias

    def _do(self, verb: Verb, conn: object = None) -> list[Answer]:
        return super()._do(verb, self._joined() if conn is None else conn)

    def set(self, key: str, *, conn: object = None, **fields: Unpack[SetFields]) -> Answer:
        return super().set(key, conn=self._joined() if conn is None else conn, **fields)

    def _outside(self, verb: str) -> Any:
        if self._joined() is not None:
            what = f"is not taken by {verb}(), which the open transaction on {self._alias!r} would not roll back"
            raise TransactionError(what, "call it after the commit, as with transaction.on_commit()")
        return super()._outside(verb)

    def _joined(self) -> object:
        connection = connections[self._alias]
        return connection if connection.in_atomic_block else None


def configured() -> Scheduler:
    """
    Return a scheduler by the settings, which is not open yet.

    Raises:
        ImproperlyConfigured: If they name no store, or have a key that there is none of.
    """
    given = _settings()
    options = SchedulerOptions(**given.get("OPTIONS", {}))
    targets = {name: make_target(url) for name, url in given.get("TARGETS", {}).items()}
    if "STORE" in given:
        return Scheduler(given["STORE"], options=options, targets=targets)
    alias = _alias(given)
    return _JoiningScheduler(_url(alias), alias, options=options, targets=targets)


def prepare(using: str) -> None:
    """
    Make the tables of the jobs in the database *using*, if they belong there and it is not in memory.
    """
    given = _settings()
    if "STORE" in given or _alias(given) != using or _is_in_memory(using):
        return
    scheduler = Scheduler(_url(using))
    try:
        scheduler.shards()  # opens it
    finally:
        scheduler.stop()


def _settings() -> dict[str, Any]:
    given: dict[str, Any] = getattr(settings, _NAME, {})
    unknown = sorted(set(given) - set(_KNOWN))
    if unknown:
        message = f"settings.{_NAME} has {unknown[0]!r}: known are {', '.join(_KNOWN)}"
        raise ImproperlyConfigured(message)
    return given


def _alias(given: dict[str, Any]) -> str:
    alias: str = given.get("DATABASE", DEFAULT_DB_ALIAS)
    return alias


def _url(alias: str) -> str:
    """
    Return the URL of the store in the database *alias*.
    """
    connection = connections[alias]
    given = connection.settings_dict
    if connection.vendor == "sqlite":
        if _is_in_memory(alias):
            remedy = f"name a file, or say where the jobs are: {_NAME} = {{'STORE': 'memory://'}} in tests"
            message = f"the database {alias!r} is in memory, where no other process finds the jobs: {remedy}"
            raise ImproperlyConfigured(message)
        return f"sqlite:///{given['NAME']}"
    if connection.vendor == "postgresql":
        further = {name: value for name, value in given.get("OPTIONS", {}).items() if name not in _NOT_OF_LIBPQ}
        parts = {"host": given["HOST"], "port": given["PORT"], "user": given["USER"], "password": given["PASSWORD"]}
        query = {name: value for name, value in {**parts, **further}.items() if value}
        return f"postgresql:///{quote(given['NAME'], safe='')}?{urlencode(query, quote_via=quote)}"
    message = f"the database {alias!r} is {connection.vendor}, where no jobs can be: set {_NAME}['STORE'] to a URL"
    raise ImproperlyConfigured(message)


def _is_in_memory(alias: str) -> bool:
    connection = connections[alias]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())
