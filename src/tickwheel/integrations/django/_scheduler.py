from __future__ import annotations

from typing import Any, Final, Unpack, cast
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from tickwheel.host.joined_connections import has_transaction
from tickwheel.jobs.errors import TransactionError
from tickwheel.jobs.model import SetAnswer
from tickwheel.jobs.requests import SetFields
from tickwheel.jobs.task_call import TaskCall
from tickwheel.jobs.verbs import Verb
from tickwheel.scheduler import Answer, Scheduler, SchedulerOptions
from tickwheel.targets import make_target

__all__ = ["configured", "prepare"]

_NAME: Final = "TICKWHEEL"
_KNOWN: Final = ("DATABASE", "OPTIONS", "QUERY", "STORE", "TARGETS")
_OF_DJANGO: Final = {"assume_role", "isolation_level", "pool", "server_side_binding"}
_OF_PSYCOPG: Final = {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}
"""Keys of a database's `OPTIONS` that cannot be in a URL, because libpq does not know them."""


class _JoiningScheduler(Scheduler):
    """
    A scheduler in one of Django's databases. Its writes join an open transaction of that database, or are refused.
    """

    def __init__(self, store: str, alias: str, **options: Any) -> None:
        super().__init__(store, **options)
        self._alias = alias

    def _do(self, verb: Verb, conn: object = None) -> list[Answer]:
        return super()._do(verb, self._joined() if conn is None else conn)

    def set(
        self,
        key: str,
        call: TaskCall | None = None,
        *,
        conn: object = None,
        if_generation: int | None = None,
        **fields: Unpack[SetFields],
    ) -> SetAnswer:
        joined = self._joined() if conn is None else conn
        return cast("SetAnswer", super().set(key, call, conn=joined, if_generation=if_generation, **fields))

    def _outside(self, verb: str) -> Any:
        if self._joined() is not None:
            what = f"is not taken by {verb}(), which the open transaction on {self._alias!r} would not roll back"
            raise TransactionError(what, "call it after the commit, as with transaction.on_commit()")
        return super()._outside(verb)

    def _joined(self) -> object:
        connection = connections[self._alias]
        if hasattr(mail, "outbox"):  # in a test, Django or pytest-django may refuse the database
            with connection.temporary_connection():
                pass
        return connection if has_transaction(connection) else None


def configured() -> Scheduler:
    given = _settings()
    options = SchedulerOptions(**given.get("OPTIONS", {}))
    targets = {name: make_target(url) for name, url in given.get("TARGETS", {}).items()}
    if "STORE" in given:
        if "QUERY" in given:
            message = f"settings.{_NAME} has 'QUERY' beside 'STORE': write its options in that URL"
            raise ImproperlyConfigured(message)
        return Scheduler(given["STORE"], options=options, targets=targets or None)  # a service accepts no targets
    alias = _alias(given)
    return _JoiningScheduler(_url(given), alias, options=options, targets=targets)


def prepare(using: str) -> None:
    """
    Create the jobs' tables, if the settings name the database *using* for them. A database in memory gets no tables.
    """
    given = _settings()
    if "STORE" in given or _alias(given) != using or _is_in_memory(using):
        return
    scheduler = Scheduler(_url(given))
    try:
        scheduler.shards()  # opens the store, which creates the tables
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


def _url(given: dict[str, Any]) -> str:
    alias = _alias(given)
    connection = connections[alias]
    if connection.vendor == "sqlite":
        path, query = _path(alias), {}
    elif connection.vendor == "postgresql":
        path, query = quote(connection.settings_dict["NAME"], safe=""), _of_libpq(connection.settings_dict)
    else:
        message = f"the database {alias!r} is {connection.vendor}, where no jobs can be: set {_NAME}['STORE'] to a URL"
        raise ImproperlyConfigured(message)
    query |= given.get("QUERY", {})
    return f"{connection.vendor}:///{path}{'?' if query else ''}{urlencode(query, quote_via=quote)}"


def _path(alias: str) -> str:
    name = str(connections[alias].settings_dict["NAME"])
    if _is_in_memory(alias):
        remedy = f"name a file, or say where the jobs are: {_NAME} = {{'STORE': 'memory://'}} in tests"
        message = f"the database {alias!r} is in memory, where no other process finds the jobs: {remedy}"
        raise ImproperlyConfigured(message)
    if name.startswith("file:") or "?" in name:
        message = (
            f"the database {alias!r} is {name!r}, which the URL of a store cannot name: write a path without a '?'"
        )
        raise ImproperlyConfigured(message)
    return name


def _of_libpq(database: dict[str, Any]) -> dict[str, Any]:
    parts = {name: database[name.upper()] for name in ("host", "port", "user", "password")}
    further = {name: value for name, value in database["OPTIONS"].items() if name not in _OF_DJANGO | _OF_PSYCOPG}
    if role := database["OPTIONS"].get("assume_role"):
        escaped = role.replace("\\", r"\\").replace(" ", r"\ ")
        further["options"] = f"{further.get('options', '')} -c role={escaped}".lstrip()
    return {name: value for name, value in {**parts, **further}.items() if value}


def _is_in_memory(alias: str) -> bool:
    connection = connections[alias]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())
