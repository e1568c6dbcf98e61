"""
Puts the parts together into one ASGI application.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import ClientDisconnect
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.guard import Guard
from tickwheel.service.http import Call
from tickwheel.service.jobs import PREFIX, Jobs
from tickwheel.service.live import Live
from tickwheel.service.metrics import Metrics
from tickwheel.service.options import ServiceOptions
from tickwheel.service.pages import Files, page, problem_page
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import problem_reply

__all__ = ["Service"]

Endpoint = Callable[[Call], Awaitable[ASGIApp]]
"""An operation: from a request to what answers it."""


class Service:
    """
    The application over one scheduler, which somebody else starts and stops.
    """

    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions) -> None:
        """
        Serve *scheduler* as *options* say.
        """
        self._scheduler = scheduler
        self._guard = Guard(options)
        self._firings = Firings()
        figures = Figures(scheduler, self._firings)
        self._live = Live(self._firings, figures, options.watchers_max)
        jobs = Jobs(scheduler, options)
        # Jobs are not left to the router: it costs as much as setting one, and knows no key with a line end in it.
        self._job = _Methods(GET=jobs.get, PUT=jobs.set, PATCH=jobs.move, DELETE=jobs.cancel, POST=jobs.act)
        self._router = Router(
            [
                Route("/v1/jobs", _Methods(GET=jobs.list)),
                Route("/v1/firings", _Methods(GET=figures.get_firings)),
                Route("/v1/stats", _Methods(GET=figures.get_stats)),
                Route("/v1/forecast", _Methods(GET=figures.get_forecast)),
                Route("/v1/live", _Methods(GET=self._live.stream)),
                Route("/metrics", _Methods(GET=Metrics(figures).get)),
                Route("/healthz", _Methods(GET=figures.healthz)),
                Route("/readyz", _Methods(GET=figures.readyz)),
                Route("/problems/{name}", _Methods(GET=problem_page)),
                Route("/", _Methods(GET=page)),
                Mount("/static", Files()),
            ],
            redirect_slashes=False,
            default=_nothing,
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _router: Router) -> AsyncIterator[None]:
        unsubscribe = self._scheduler.subscribe(self._firings.hook)
        self._live.open()
        try:
            yield
        finally:
            unsubscribe()
            self.end_streams()

    def end_streams(self) -> None:
        """
        End what would never end by itself; called on the loop when a stop begins.
        """
        self._live.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Answer one request; whatever goes wrong is answered with a problem.
        """
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        is_started = False

        async def sending(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        call = Call(scope, receive)
        try:
            self._guard.check(call)
            if call.raw_path.startswith(PREFIX):
                reply = await self._job.reply(call)
                await reply(scope, receive, send)
            else:
                await self._router(scope, receive, sending)
        except ClientDisconnect:
            pass  # there is nobody to answer
        except Exception as error:
            if is_started:
                raise
            await problem_reply(call, error)(scope, receive, send)


class _Methods:
    """
    One address: the operation of each method that it takes.
    """

    def __init__(self, **operations: Endpoint) -> None:
        self._operations = operations
        if "GET" in operations:
            operations["HEAD"] = operations["GET"]
        self._allow = ", ".join(sorted(operations))

    async def reply(self, call: Call) -> ASGIApp:
        """
        Return what the operation answers.
        """
        operation = self._operations.get(call.method)
        if operation is None:
            message = f"this address takes {self._allow}, not {show(call.method)}"
            raise ProblemError("method_not_allowed", message, value=call.method, headers={"allow": self._allow})
        return await operation(call)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self.reply(Call(scope, receive))
        await reply(scope, receive, send)


async def _nothing(scope: Scope, _receive: Receive, _send: Send) -> None:
    message = f"there is nothing at {show(scope['path'])}"
    raise ProblemError("page_not_found", message, value=scope["path"])
