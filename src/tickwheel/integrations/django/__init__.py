"""
A Django application: jobs in the database of your models, set in their transactions.

    INSTALLED_APPS = [..., "tickwheel.integrations.django"]

Handlers are found in the module `jobs` of each application; `manage.py tickwheel` fires the jobs, and the admin lists
them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

from tickwheel.integrations._handlers import Handlers, is_async, within
from tickwheel.scheduler import Scheduler
from tickwheel.threads import CallLock

__all__ = ["Jobs", "jobs"]


class Jobs(Handlers):
    """
    The handlers of a project, and its `Scheduler`; `jobs` is the only instance.

    `settings.TICKWHEEL` may have `DATABASE`, the alias of the database with the jobs (default: "default"), and `QUERY`,
    options of the URL of its store. For jobs elsewhere, it has `STORE`, a URL, instead. It may also have `OPTIONS`, the
    fields of `SchedulerOptions`, and `TARGETS`, URLs keyed by name.

    If the jobs are in the database of the models, a set, move or cancel call inside `transaction.atomic()` joins that
    transaction, and takes effect if and only if you commit. An operation that cannot join, such as `skip`, is refused
    there. For jobs elsewhere, use `transaction.on_commit`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = CallLock()
        self._scheduler: Scheduler | None = None
        self._pid = 0
        self._is_lent = False

    @property
    def scheduler(self) -> Scheduler:
        """
        The scheduler of this process, created on first use. It does not fire jobs; `manage.py tickwheel` does.
        """
        with self._lock:
            if self._scheduler is None or (self._pid != os.getpid() and not self._is_lent):
                from tickwheel.integrations.django._scheduler import configured  # noqa: PLC0415  Django, on use

                made = configured()
                self.register(made)
                self._scheduler, self._pid = made, os.getpid()  # a child of a fork must not use the parent's scheduler
            return self._scheduler

    def register(self, scheduler: Scheduler) -> None:
        """
        Register all handlers on *scheduler*. Around each call, database connections that are too old are closed.

        The queues of `settings.TASKS` are also registered, if their backend is the `TickwheelBackend` of this module.
        """
        from django.conf import settings  # noqa: PLC0415  Django, on use
        from django.utils.module_loading import import_string  # noqa: PLC0415  as above

        for alias, params in getattr(settings, "TASKS", {}).items():
            backend = import_string(params["BACKEND"])
            if hasattr(backend, "register_queues"):
                backend(alias, params).register_queues(self)
        self._register(scheduler, _with_fresh_connections)

    @contextmanager
    def using(self, scheduler: Scheduler) -> Iterator[Scheduler]:
        """
        Inside the block, `jobs.scheduler` is *scheduler*, with all handlers. The caller starts and stops the scheduler.
        """
        self.register(scheduler)
        with self._lock:
            before = self._scheduler, self._is_lent
            self._scheduler, self._is_lent = scheduler, True
        try:
            yield scheduler
        finally:
            with self._lock:
                self._scheduler, self._is_lent = before

    def close(self) -> None:
        """
        Stop the scheduler, if there is one. The next use of `jobs.scheduler` makes another one.

        Tests on PostgreSQL need this, because a database with open connections cannot be dropped.
        """
        with self._lock:
            scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.stop()


jobs = Jobs()


def __getattr__(name: str) -> Any:
    if name == "TickwheelBackend":  # imported on use, because the base class needs the settings
        return import_module(f"{__name__}._tasks").TickwheelBackend
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def _with_fresh_connections(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    Wrap *function* like a view of Django: connections that are too old or broken are closed before and after it.

    A connection with an open transaction stays open, because it belongs to the caller, such as a test.
    """
    if not is_async(function):
        return within(function, _fresh_connections)
    from asgiref.sync import sync_to_async  # noqa: PLC0415  Django brings it

    @wraps(function)
    async def awaited(*arguments: object) -> object:
        around = _fresh_connections()
        await sync_to_async(around.__enter__)()
        try:
            return await function(*arguments)
        finally:
            await sync_to_async(around.__exit__)(None, None, None)

    return awaited


@contextmanager
def _fresh_connections() -> Iterator[None]:
    from django.db import connections  # noqa: PLC0415  on use

    opened = connections.all(initialized_only=True)
    callers = [each for each in opened if each.connection is not None and _is_in_transaction(each)]

    def close_old() -> None:
        for each in connections.all(initialized_only=True):
            if each not in callers:
                each.close_if_unusable_or_obsolete()

    close_old()
    try:
        yield
    finally:
        close_old()


def _is_in_transaction(connection: Any) -> bool:
    is_managed: bool = connection.autocommit != connection.settings_dict["AUTOCOMMIT"]
    return is_managed or connection.in_atomic_block
