"""
A scheduler in FastAPI and Starlette, which starts and stops with the application. Requests get it as a dependency.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tickwheel.integrations._handlers import Handlers
from tickwheel.integrations._refused import STATUS, Refusal, document_of
from tickwheel.scheduler import AsyncScheduler
from tickwheel.typing import StartRole

__all__ = ["Jobs"]


class Jobs(Handlers):
    """
    The handlers of an application, and an `AsyncScheduler` that runs as long as the application.

    `FastAPI(lifespan=jobs.lifespan)` starts the scheduler. `Depends(jobs)` passes the scheduler to a request, and other
    code reads `jobs.scheduler`. Each start of the application makes a new scheduler, so an application may start again,
    as in tests.

    Args:
        store: A URL, as for `AsyncScheduler`.
        role: "auto" if several workers share one SQLite file (see `Scheduler.start`); "owner" to fail if the file
            already has an owner.
        **options: Further arguments of `AsyncScheduler`.
    """

    def __init__(self, store: str = "sqlite:///tickwheel.db", *, role: StartRole = "auto", **options: Any) -> None:
        super().__init__()
        self._store, self._role, self._options = store, role, options
        self._scheduler: AsyncScheduler | None = None
        self._lent: AsyncScheduler | None = None

    @property
    def scheduler(self) -> AsyncScheduler:
        """
        The scheduler of the running application. A RuntimeError means that the application is not running.
        """
        if self._scheduler is None:
            message = (
                "the jobs have no scheduler yet: pass lifespan=jobs.lifespan, and in tests use `with TestClient(app)`"
            )
            raise RuntimeError(message)
        return self._scheduler

    async def __call__(self) -> AsyncScheduler:
        return self.scheduler

    @asynccontextmanager
    async def running(self, app: object = None) -> AsyncIterator[AsyncScheduler]:
        """
        Run a scheduler with all handlers inside the block, for your own lifespan function.

        If *app* is given, and a user's rule or time cannot be read, *app* answers 422. If *app* has its own exception
        handler for `InvalidValueError` or a base class of it, that handler is used instead.

        Raises:
            RuntimeError: If a scheduler is already running.
        """
        if self._scheduler is not None:
            message = "the jobs run already: give each application its own"
            raise RuntimeError(message)
        _answer_rules(app)
        if self._lent is not None:
            self._scheduler = self._lent
            try:
                yield await self._lent.start()
            finally:
                self._scheduler = None
            return
        scheduler = self._scheduler = AsyncScheduler(self._store, **self._options)
        try:
            self._register(scheduler)
            await scheduler.start(role=self._role)
            yield scheduler
        finally:
            self._scheduler = None
            await scheduler.stop()

    @contextmanager
    def using(self, scheduler: AsyncScheduler) -> Iterator[AsyncScheduler]:
        """
        Let an application that starts inside the block use *scheduler*, with all handlers and tasks. For tests.

        The application does not stop this scheduler. Pass the fixture `async_scheduler`, whose clock is moved by the
        test.
        """
        self._register(scheduler)
        before, self._lent = self._lent, scheduler
        try:
            yield scheduler
        finally:
            self._lent = before

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[dict[str, object]]:
        """
        Run the scheduler while the application runs. Requests find it as `request.state.scheduler`.
        """
        async with self.running(app) as scheduler:
            yield {"scheduler": scheduler}


def _answer_rules(app: Any) -> None:
    """
    Make *app* answer 422 to a rule that cannot be read. This also works if *app* has already begun its lifespan.
    """
    from starlette.applications import Starlette  # noqa: PLC0415  on use
    from starlette.middleware.exceptions import ExceptionMiddleware  # noqa: PLC0415  on use

    if not isinstance(app, Starlette):
        return
    own = set(app.exception_handlers)
    kinds = [kind for kind in Refusal if own.isdisjoint(set(kind.__mro__) - {Exception})]
    for kind in kinds:
        app.add_exception_handler(kind, _refuse)
    layer: Any = app.middleware_stack  # during the lifespan, the stack is already built
    while layer is not None and not isinstance(layer, ExceptionMiddleware):
        layer = getattr(layer, "app", None)
    if layer is not None:
        for kind in kinds:
            layer.add_exception_handler(kind, _refuse)
    elif kinds and app.middleware_stack is not None:  # another layer hides the layer that handles exceptions
        app.middleware_stack = app.build_middleware_stack()


async def _refuse(_request: object, error: Exception) -> Any:
    from starlette.responses import JSONResponse  # noqa: PLC0415  on use

    document = document_of(error)
    if document is None:
        raise error
    return JSONResponse(document, STATUS)
