from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tickwheel.errors import InvalidValueError
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.app import Service
from tickwheel.service.options import ServiceOptions
from tickwheel.service.tokens import Access

__all__ = ["Authorize", "HasScheduler", "tickwheel_app"]

_RIGHTS = {"read": Access.READ, "write": Access.WRITE, None: None}

Authorize: TypeAlias = Callable[[Request], str | Awaitable[str | None] | None]
"""A function that decides on a request: it returns "write", "read", or None to refuse the request."""


class HasScheduler(Protocol):
    @property
    def scheduler(self) -> AsyncScheduler: ...


def tickwheel_app(
    scheduler: AsyncScheduler | HasScheduler,
    *,
    authorize: Authorize | None = None,
    options: ServiceOptions | None = None,
) -> ASGIApp:
    """
    Return an ASGI application with the page and the API of *scheduler*, for `app.mount("/jobs", …)`.

    The application trusts every request that reaches it, under any Host name, because the outer application is
    responsible for authentication. Pass *authorize*, or mount the application behind middleware that refuses strangers.
    Web pages of other origins can never write. Workers that pull jobs need `tickwheel serve`.

    The application starts and stops *scheduler*, which may be the `Jobs` of an integration. *authorize*, a function or
    coroutine function, is called with each request. It returns "write", "read", or None, which refuses the request with
    403. It may raise the application's own exceptions, such as HTTPException. *options* has the limits of the service;
    its address, certificates and tokens are ignored. A *scheduler* that is not async is a TypeError.
    """
    if not isinstance(scheduler, AsyncScheduler) and not hasattr(type(scheduler), "scheduler"):
        message = f"scheduler is {scheduler!r}: pass an AsyncScheduler, or the Jobs of tickwheel.integrations.fastapi"
        raise TypeError(message)
    return _Mounted(scheduler, authorize, options or ServiceOptions())


class _Mounted:
    def __init__(
        self, source: AsyncScheduler | HasScheduler, authorize: Authorize | None, options: ServiceOptions
    ) -> None:
        self._source = source
        self._authorize = authorize
        self._options = options
        self._service: Service | None = None
        self._scheduler: AsyncScheduler | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            message = f"tickwheel_app answers HTTP, and not {scope['type']}"
            raise RuntimeError(message)
        inner = _without_prefix(scope)
        if not inner["path"]:  # relative addresses need the slash
            name = scope["path"].rpartition("/")[2]
            await Response(status_code=307, headers={"location": f"{quote(name)}/"})(scope, receive, send)
            return
        if self._authorize is not None:
            right = self._authorize(Request(scope))
            if inspect.isawaitable(right):
                right = await right
            if right not in _RIGHTS:
                raise InvalidValueError("the answer of authorize", right, "return 'write', 'read' or None")
            if right is None:
                await Response("forbidden", 403)(scope, receive, send)
                return
            inner["tickwheel.access"] = _RIGHTS[right]
        await self._current()(inner, receive, send)

    def _current(self) -> Service:
        source = self._source
        scheduler = source if isinstance(source, AsyncScheduler) else source.scheduler
        if self._service is None or scheduler is not self._scheduler:
            self._service, self._scheduler = Service(scheduler, self._options, is_mounted=True), scheduler
        return self._service


def _without_prefix(scope: Scope) -> Scope:
    """
    Return *scope* as if the mounted application were at the root of the server.
    """
    root, path = scope.get("root_path", ""), scope["path"]
    # A proxy may already have removed its own part of `root_path` from the path. Then only the rest is the prefix.
    mount = root.removeprefix(scope.get("app_root_path", ""))
    prefix = next((each for each in (root, mount) if path == each or path.startswith(f"{each}/")), "")
    raw: bytes = scope.get("raw_path") or quote(path, safe="/:@%").encode()
    ends = (index for index in range(len(raw) + 1) if index == len(raw) or raw[index : index + 1] == b"/")
    wanted = prefix.encode()
    end = next((end for end in ends if unquote_to_bytes(raw[:end]) == wanted), 0)
    return {**scope, "path": path[len(prefix) :], "raw_path": raw[end:], "root_path": ""}
