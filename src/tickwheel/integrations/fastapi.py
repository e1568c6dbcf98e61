"""
A scheduler in FastAPI and Starlette: it starts and stops with the application, and requests get it as a dependency.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tickwheel.integrations._handlers import Handlers
from tickwheel.scheduler import AsyncScheduler
from tickwheel.typing import StartRole

__all__ = ["Jobs"]


class Jobs(Handlers):
    """
    The handlers of an application, and the `AsyncScheduler` that runs while it does.

    `FastAPI(lifespan=jobs.lifespan)` starts it, `Depends(jobs)` gives it to a request, and `jobs.scheduler` to other
    code. Each time that the application starts, the scheduler is another one, so it may start again, as in tests.

    Args:
        store: A URL, as `AsyncScheduler` takes it.
        role: "auto" for one of several workers on one SQLite file: see `Scheduler.start`; "owner" to insist.
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
        The scheduler of the running application.

        Raises:
            RuntimeError: If it does not run.
        """
        if self._scheduler is None:
            message = (
                "the jobs have no scheduler yet: pass lifespan=jobs.lifespan, and in tests use `with TestClient(app)`"
            )
            raise RuntimeError(message)
        return self._scheduler

    async def __call__(self) -> AsyncScheduler:
        """
        Return the scheduler, as a dependency.
        """
        return self.scheduler

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AsyncScheduler]:
        """
        Run a scheduler with all handlers inside the block, for a lifespan of your own.

        Raises:
            RuntimeError: If one runs already.
            StoreError: As `Scheduler.start`.
        """
        if self._scheduler is not None:
            message = "the jobs run already: give each application its own"
            raise RuntimeError(message)
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
        Let an application that starts inside the block use *scheduler*, with all handlers and tasks, for a test.

        It is not stopped with the application; pass the fixture `async_scheduler`, whose clock the test moves.
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
        Start with the application and stop with it; `request.state.scheduler` is the scheduler.
        """
        async with self.running() as scheduler:
            yield {"scheduler": scheduler}
