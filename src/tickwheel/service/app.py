from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tickwheel.observe.tracing import TRACE
from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.repeats import keeper_of
from tickwheel.service.acts import Acts
from tickwheel.service.batch import Batches
from tickwheel.service.debug import Debug
from tickwheel.service.figures import Figures
from tickwheel.service.firings import Firings
from tickwheel.service.fleet import Fleet
from tickwheel.service.guard import Guard
from tickwheel.service.http import Reply, Request
from tickwheel.service.idempotency import IdempotencyKeys
from tickwheel.service.incidents import Incidents
from tickwheel.service.intake import incoming_trace, without_conditions, without_query
from tickwheel.service.jobs import PREFIX, Jobs
from tickwheel.service.lanes import Lanes
from tickwheel.service.live import Live
from tickwheel.service.manifests import PREFIX as MANIFESTS
from tickwheel.service.manifests import Manifests
from tickwheel.service.methods import KeyMethods, Methods
from tickwheel.service.minutes import Minutes
from tickwheel.service.openapi import openapi
from tickwheel.service.options import ServiceOptions
from tickwheel.service.other_firings import FORWARDED_FIRINGS, OtherFirings
from tickwheel.service.pages import Files, compressed, page, problem_page
from tickwheel.service.peers import FORWARDED, Peers
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.pull import Pulls
from tickwheel.service.rejections import Rejections
from tickwheel.service.replies import document_reply, problem_reply
from tickwheel.service.routes import Endpoint, operations
from tickwheel.service.schedules import PREFIX as SCHEDULES
from tickwheel.service.schedules import Schedules
from tickwheel.service.scopes import Scopes
from tickwheel.service.token_scope import bounded

__all__ = ["Service"]

_LOG: Final = logging.getLogger("tickwheel.service")
_MOUNTED_STREAM_S: Final = 5.0
"""
Maximum length, in seconds, of a page's event stream if another application mounts the service.

The server of that application waits for the end of the stream before it stops.
"""


class Service:
    """
    The ASGI application for one scheduler. The caller starts and stops the scheduler.
    """

    def __init__(self, scheduler: AsyncScheduler, options: ServiceOptions, *, is_mounted: bool = False) -> None:
        self._scheduler = scheduler
        rejections = Rejections()
        self._guard = Guard(options, rejections, is_mounted=is_mounted)
        self._firings = Firings(scheduler)
        figures = Figures(scheduler, self._firings)
        self.peers = Peers(scheduler, figures, options)
        self._others = OtherFirings(scheduler, self.peers)
        self._firings.others = self._others
        self._live = Live(
            self._firings, figures, options.watchers_max, options.trace_url, _MOUNTED_STREAM_S if is_mounted else None
        )
        keeper = keeper_of(scheduler)
        if keeper is None:
            store = scheduler.stats(with_store=False)["store"]
            _LOG.warning("%s keeps no answers: an Idempotency-Key holds for this process alone", store)
        idempotency = IdempotencyKeys(options.batch_bytes_max, keeper)
        self._pulls = Pulls(scheduler, options, self.peers)
        self._debug = Debug(figures)
        table = operations(
            jobs=Jobs(scheduler, options, figures),
            batches=Batches(scheduler, options, figures),
            schedules=Schedules(scheduler, options, figures),
            manifests=Manifests(scheduler, options, figures),
            scopes=Scopes(scheduler, options),
            incidents=Incidents(scheduler),
            minutes=Minutes(scheduler),
            acts=Acts(scheduler),
            pulls=self._pulls,
            figures=figures,
            live=self._live,
            fleet=Fleet(scheduler, figures),
            lanes=Lanes(scheduler, figures),
            debug=self._debug,
            rejections=rejections,
        )
        self.document = openapi(table)
        document = document_reply(self.document)
        by_path: dict[str, dict[str, Endpoint]] = {}
        for operation in table:
            run = bounded(operation.run, is_open=operation.is_open)
            if operation.path.startswith("/v1/") and not operation.query:  # probes and scrapers request other paths
                run = without_query(run)
            if operation.method != "GET" and not operation.has_conditions:
                run = without_conditions(run)
            by_path.setdefault(operation.path, {})[operation.method] = run
        scopes = {operation.path: operation.kept_by for operation in table if operation.method != "GET"}
        methods = {path: Methods(idempotency, scopes.get(path, "request"), **found) for path, found in by_path.items()}
        # Requests for jobs bypass the router, because routing costs as much as setting a job, and because the router
        # does not match a key with a line break.
        self._job = KeyMethods("/v1/jobs/{key}", methods)
        self._schedule = KeyMethods("/v1/schedules/{key}", methods)
        self._manifest = methods.pop("/v1/manifests/{name}")
        self._router = Router(
            [
                *(Route(path, found) for path, found in methods.items()),
                Route("/openapi.json", Methods(idempotency, GET=_always(document))),
                Route("/problems/{name}", Methods(idempotency, GET=problem_page)),
                Route("/", Methods(idempotency, GET=page)),
                Mount("/static", compressed(Files())),
            ],
            redirect_slashes=False,
            default=_nothing,
            lifespan=self._lifespan,
        )

    def __repr__(self) -> str:
        return f"<Service of {self._scheduler!r}>"

    @contextlib.asynccontextmanager
    async def _lifespan(self, _router: Router) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.end_streams()
            await self._pulls.close()
            await self._others.close()
            await self.peers.close()

    def end_streams(self) -> None:
        """
        End the endless streams. Call this on the event loop when a stop begins.
        """
        self._live.close()
        self._pulls.end()
        self._debug.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        call = Request(scope, receive)
        if b"traceparent" in call.headers:
            TRACE.set(incoming_trace(call))  # each request has its own context
        reply: ASGIApp = self._route
        try:
            if call.raw_path == FORWARDED and call.method == "POST":  # from a node that has checked its caller
                await (await self._pulls.forwarded(call))(scope, receive, send)
                return
            if call.raw_path == FORWARDED_FIRINGS and call.method == "POST":
                await (await self._others.forwarded(call))(scope, receive, send)
                return
            self._guard.check(call)
            if call.raw_path.startswith(PREFIX):
                reply = await self._job.reply(call)
            elif call.raw_path.startswith(SCHEDULES):
                reply = await self._schedule.reply(call)
            elif call.raw_path.startswith(MANIFESTS):
                reply = await self._manifest.reply(call)
        except ClientDisconnect:
            return  # the client has disconnected
        except Exception as error:  # noqa: BLE001  it is answered, and logged if it is an internal error
            reply = problem_reply(call, error)
        await reply(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def sending(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._router(scope, receive, sending)
        except ClientDisconnect:
            pass  # the client has disconnected
        except Exception as error:
            if is_started:
                raise
            await problem_reply(Request(scope, receive), error)(scope, receive, send)


def _always(reply: Reply) -> Endpoint:
    async def answer(_call: Request) -> ASGIApp:
        return reply

    return answer


async def _nothing(scope: Scope, _receive: Receive, _send: Send) -> None:
    message = f"there is nothing at {show(scope['path'])}"
    raise ProblemError("page_not_found", message, value=scope["path"])
