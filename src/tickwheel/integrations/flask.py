"""
A Flask extension: the scheduler of an application, and handlers that run in the application's context.
"""

from __future__ import annotations

import atexit
import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary

from tickwheel.integrations._handlers import Handlers, within
from tickwheel.integrations._refused import STATUS, Refusal, document_of
from tickwheel.integrations._worker import fire_until_stopped
from tickwheel.scheduler import InvalidJobError, Scheduler
from tickwheel.typing import StartRole

if TYPE_CHECKING:
    import flask

__all__ = ["Jobs"]

_NAME: Final = "tickwheel"
_ROLES: Final = ("owner", "auto", "client")


class Jobs(Handlers):
    """
    The handlers of an application, and its `Scheduler`, which starts with the application and stops with the process.

    Pass *app* if all handlers are registered; if not, call `init_app` later. *options* are further arguments of
    `Scheduler`. The configuration has `TICKWHEEL_STORE`, a URL (default: sqlite:///tickwheel.db), and `TICKWHEEL_ROLE`.
    With the role "auto", one of several workers fires the jobs. With "owner", this process must fire them. With
    "client", this process does not fire them; `flask tickwheel` does, in a separate process. A handler runs in the
    application's context.
    """

    def __init__(self, app: flask.Flask | None = None, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._pids: WeakKeyDictionary[Scheduler, int] = WeakKeyDictionary()
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask, scheduler: Scheduler | None = None) -> None:
        """
        Make a scheduler for *app*, with all handlers that are registered by now, and start it.

        With the reloader of `flask run`, the scheduler starts in the process that serves. Other commands of `flask` do
        not start the scheduler. A test may pass its own *scheduler*, which this method neither starts nor stops.

        Raises:
            InvalidJobError: If options of a handler, or the role, are invalid.
            RuntimeError: If *scheduler* already belongs to another application, in whose context its handlers run.
        """
        role = app.config.get("TICKWHEEL_ROLE", "auto")
        if role not in _ROLES:
            raise InvalidJobError("TICKWHEEL_ROLE", role, f"write one of {', '.join(_ROLES)}")
        if scheduler in self._known:
            message = f"{app.name!r} got the scheduler of another application: give each its own"
            raise RuntimeError(message)
        if scheduler is None:
            scheduler = self._make(app)
            atexit.register(self._stop, app)
            if _will_fork():
                self._start_in_workers(app, role)
            elif role != "client" and _is_serving():
                scheduler.start(role=role)
        else:
            self._give(app, scheduler)
        app.cli.command(_NAME, help="Fire jobs until SIGINT or SIGTERM.")(
            lambda: fire_until_stopped(self._of(app), "auto", print)
        )
        for kind in Refusal:
            if not _is_handled(app, kind):
                app.register_error_handler(kind, _refuse)

    @property
    def scheduler(self) -> Scheduler:
        """
        The scheduler of the current application.

        A RuntimeError means that there is no application's context, or no `init_app` call.
        """
        from flask import current_app  # noqa: PLC0415  on use

        if _NAME not in current_app.extensions:
            message = f"{current_app.name!r} has no jobs: call init_app(app) first"
            raise RuntimeError(message)
        return self._of(current_app)

    def _of(self, app: flask.Flask) -> Scheduler:
        """
        Return the scheduler of *app* in this process. If a parent process made one before a fork, make another one.
        """
        found: Scheduler = app.extensions[_NAME]
        return self._make(app) if self._pids.get(found, os.getpid()) != os.getpid() else found

    def _make(self, app: flask.Flask) -> Scheduler:
        made = Scheduler(app.config.get("TICKWHEEL_STORE", "sqlite:///tickwheel.db"), **self._options)
        self._pids[made] = os.getpid()
        self._give(app, made)
        return made

    def _give(self, app: flask.Flask, scheduler: Scheduler) -> None:
        self._register(scheduler, lambda function: within(function, app.app_context))
        app.extensions[_NAME] = scheduler

    def _stop(self, app: flask.Flask) -> None:
        if self._pids.get(app.extensions[_NAME]) == os.getpid():
            app.extensions[_NAME].stop()

    def _start_in_workers(self, app: flask.Flask, role: StartRole | Literal["client"]) -> None:
        """
        Start a scheduler in each forked child, unless *role* is "client". No child inherits an open store.
        """
        master = os.getpid()

        def before() -> None:
            if os.getpid() == master:
                self._stop(app)
                self._make(app)

        def after() -> None:
            if os.getppid() == master and role != "client":
                self._of(app).start(role=role)

        os.register_at_fork(before=before, after_in_child=after)


def _refuse(error: Exception) -> tuple[dict[str, str], int]:
    document = document_of(error)
    if document is None:
        raise error
    return document, STATUS


def _is_handled(app: flask.Flask, kind: type[Exception]) -> bool:
    own = {each for by_code in app.error_handler_spec[None].values() for each in by_code}
    return not own.isdisjoint(set(kind.__mro__) - {Exception})


def _will_fork() -> bool:
    """
    Return True if a server loads the application before it forks: gunicorn `--preload`, uWSGI without `lazy-apps`.
    """
    if (uwsgi := sys.modules.get("uwsgi")) is not None:
        return bool(uwsgi.worker_id() == 0)
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  gunicorn has no other sign of it
    while frame is not None and frame.f_globals.get("__name__") != "gunicorn.arbiter":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "setup"


def _is_serving() -> bool:
    """
    Return True if this process should fire jobs. Commands such as `flask shell`, and the reloader's parent, should not.
    """
    import click  # noqa: PLC0415  Flask brings it
    from flask.cli import FlaskGroup, run_command  # noqa: PLC0415  on use
    from flask.helpers import get_debug_flag  # noqa: PLC0415  on use
    from werkzeug.serving import is_running_from_reloader  # noqa: PLC0415  Flask brings it

    context = click.get_current_context(silent=True)
    if context is None or not isinstance(context.find_root().command, FlaskGroup):
        return True
    if context.command is not run_command:
        return False
    reloads = context.params["reload"]
    return is_running_from_reloader() or not (get_debug_flag() if reloads is None else reloads)
