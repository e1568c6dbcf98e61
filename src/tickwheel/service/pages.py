"""
Serves the page, its files, and the pages that explain problems.

The page uses no other server and no inline code. Its content security policy allows only its own files and service.
Trusted Types prevent strings from becoming markup.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import ASGIApp, Scope

from tickwheel.service.bundle import ROOT, bundle
from tickwheel.service.http import Reply, Request
from tickwheel.service.problems import PROBLEM_TYPES, ProblemError, show
from tickwheel.service.replies import document_reply

__all__ = ["PAGE_HEADERS", "Files", "compressed", "page", "problem_page"]

STATIC: Final = Path(__file__).with_name("static")

_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
PAGE_HEADERS: Final = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
_PRELOAD: Final = f"<static/{ROOT}>;rel=modulepreload"
"""Link header that makes the browser preload the page's modules."""


class Files(StaticFiles):
    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        joined = bundle(STATIC).get(path)
        if joined is None or scope["method"] not in {"GET", "HEAD"}:
            return await super().get_response(path, scope)
        tag = f'"{hashlib.sha256(joined).hexdigest()[:32]}"'
        response = Response(joined, media_type="text/javascript", headers={**PAGE_HEADERS, "etag": tag})
        if self.is_not_modified(response.headers, Headers(scope=scope)):
            return NotModifiedResponse(response.headers)
        return response

    def file_response(self, *args: object, **kwargs: object) -> Response:
        # with these headers browsers revalidate the file, and an unchanged file costs only a 304
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # passed on unchanged
        response.headers.update(PAGE_HEADERS)
        return response


def compressed(files: ASGIApp) -> ASGIApp:
    return GZipMiddleware(files, minimum_size=500)


async def page(_call: Request) -> ASGIApp:
    return compressed(FileResponse(STATIC / "index.html", headers={**PAGE_HEADERS, "link": _PRELOAD}))


async def problem_page(call: Request) -> Reply:
    """
    Explain the problem whose `type` is this address.
    """
    name = call.path.rpartition("/")[2]
    kind = PROBLEM_TYPES.get(name)
    if kind is None:
        raise ProblemError("page_not_found", f"no problem is called {show(name)}", value=name)
    return document_reply({"name": kind.name, "status": kind.status, "title": kind.title, "remedy": kind.remedy})
