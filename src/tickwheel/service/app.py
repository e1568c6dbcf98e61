"""
Puts the parts together into one ASGI application.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import Message, Receive, Scope, Send

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.guard import Guard
from tickwheel.service.jobs import Jobs
from tickwheel.service.live import Live
from tickwheel.service.metrics import Metrics
from tickwheel.service.options import ServiceOptions
from tickwheel.service.pages import Files, page, problem_page
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.replies import problem_reply

__all__ = ["Service"]

Endpoint = Callable[[Request], Awaitable[Response]]


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
        metrics = Metrics(figures)
        self._router = Router(
            [
                _route(
                    "/v1/jobs/{key:key}", GET=jobs.get, PUT=jobs.set, PATCH=jobs.move, DELETE=jobs.cancel, POST=jobs.act
                ),
                _route("/v1/jobs", GET=jobs.list),
                _route("/v1/firings", GET=figures.get_firings),
                _route("/v1/stats", GET=figures.get_stats),
                _route("/v1/forecast", GET=figures.get_forecast),
                _route("/v1/live", GET=self._live.stream),
                _route("/metrics", GET=metrics.get),
                _route("/healthz", GET=figures.healthz),
                _route("/readyz", GET=figures.readyz),
                _route("/problems/{name}", GET=problem_page),
                _route("/", GET=page),
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

        try:
            self._guard.check(scope)
            await self._router(scope, receive, sending)
        except ClientDisconnect:
            pass  # there is nobody to answer
        except Exception as error:
            if is_started:
                raise
            await problem_reply(scope, error)(scope, receive, send)


class _KeyConvertor(Convertor[str]):
    """
    A job's key as the rest of the address: any characters, line ends too, which the built-in `path` leaves out.
    """

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("key", _KeyConvertor())


def _route(path: str, **endpoints: Endpoint) -> Route:
    return Route(path, _Methods(endpoints))


class _Methods:
    """
    One address: the endpoint of each method that it takes.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]
        self._allow = ", ".join(sorted(self._endpoints))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["method"])
        if endpoint is None:
            message = f"this address takes {self._allow}, not {show(scope['method'])}"
            raise ProblemError("method_not_allowed", message, value=scope["method"], headers={"allow": self._allow})
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


async def _nothing(scope: Scope, _receive: Receive, _send: Send) -> None:
    message = f"there is nothing at {show(scope['path'])}"
    raise ProblemError("page_not_found", message, value=scope["path"])
