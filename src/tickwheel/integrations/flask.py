"""
A Flask extension: the scheduler of an application, and handlers in its context.
"""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any, Final

from tickwheel.integrations._handlers import Handlers, within
from tickwheel.integrations._worker import fire_until_stopped
from tickwheel.scheduler import InvalidJobError, Scheduler

if TYPE_CHECKING:
    import flask

__all__ = ["Jobs"]

_NAME: Final = "tickwheel"
_ROLES: Final = ("owner", "auto", "client")


class Jobs(Handlers):
    """
    The handlers of an application, and its `Scheduler`, which starts with it and stops with the process.

    The configuration says `TICKWHEEL_STORE`, a URL, by default sqlite:///tickwheel.db; and `TICKWHEEL_ROLE`: "auto",
    which fires in one of several workers, "owner" to insist, or "client" not to fire, where `flask tickwheel` does that
    in a process of its own. A handler runs in the application's context.

    Args:
        app: The application, once its handlers are registered; or call `init_app` later.
        **options: Further arguments of `Scheduler`.
    """

    def __init__(self, app: flask.Flask | None = None, **options: Any) -> None:
        super().__init__()
        self._options = options
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask, scheduler: Scheduler | None = None) -> None:
        """
        Give *app* its scheduler, with all handlers that are registered by now, and start that.

        Where `flask run` reloads, it starts in the process that serves; other commands of `flask` do not start it.

        Args:
            app: With its configuration.
            scheduler: Another one, for a test: it is neither started nor stopped here.

        Raises:
            StoreError: As `Scheduler.start`.
            InvalidJobError: For options of a handler or a role that there cannot be.
            RuntimeError: If *scheduler* was given to another application, in whose context its handlers run.
        """
        role = app.config.get("TICKWHEEL_ROLE", "auto")
        if role not in _ROLES:
            raise InvalidJobError("TICKWHEEL_ROLE", role, f"write one of {', '.join(_ROLES)}")
        if scheduler in self._known:
            message = f"{app.name!r} got the scheduler of another application: give each its own"
            raise RuntimeError(message)
        made = scheduler or Scheduler(app.config.get("TICKWHEEL_STORE", "sqlite:///tickwheel.db"), **self._options)
        self._register(made, lambda function: within(function, app.app_context))
        app.extensions[_NAME] = made
        app.cli.command(_NAME, help="Fire jobs until SIGINT or SIGTERM.")(
            lambda: fire_until_stopped(made, "auto", print)
        )
        if scheduler is None:
            atexit.register(made.stop)
            if role != "client" and _is_serving():
                made.start(role=role)

    @property
    def scheduler(self) -> Scheduler:
        """
        The scheduler of the current application.

        Raises:
            RuntimeError: Outside of an application's context, or in that of one without `init_app`.
        """
        from flask import current_app  # noqa: PLC0415  on use

        if _NAME not in current_app.extensions:
            message = f"{current_app.name!r} has no jobs: call init_app(app) first"
            raise RuntimeError(message)
        found: Scheduler = current_app.extensions[_NAME]
        return found


def _is_serving() -> bool:
    """
    Return whether this process is to fire: not under `flask shell` and the like, nor in the one that only reloads.
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
