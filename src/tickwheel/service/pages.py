"""
The page and its files, and the addresses of problems.

The page needs no network and no inline code: the policy lets it load its own files and speak with its own service,
nothing else, and Trusted Types keep any string from becoming markup.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

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
_PRELOADS: Final = ",".join(f"<static/{path.name}>;rel=modulepreload" for path in sorted(STATIC.glob("*.js")))
"""All modules are loaded at once, and not each when another one asks for it."""


class Files(StaticFiles):
    """
    The page's files, each with the page's headers.
    """

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    def file_response(self, *args: object, **kwargs: object) -> Response:
        """
        Return the file with headers that make browsers revalidate it: an unchanged one is answered with 304.
        """
        response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        response.headers.update(PAGE_HEADERS)
        return response


def compressed(files: ASGIApp) -> ASGIApp:
    """
    Return *files*, which are sent as gzip to clients that accept it.
    """
    return GZipMiddleware(files, minimum_size=500)


async def page(_call: Request) -> ASGIApp:
    return compressed(FileResponse(STATIC / "index.html", headers={**PAGE_HEADERS, "link": _PRELOADS}))


async def problem_page(call: Request) -> Reply:
    """
    Explain the problem with this `type`.
    """
    name = call.path.rpartition("/")[2]
    kind = PROBLEM_TYPES.get(name)
    if kind is None:
        raise ProblemError("page_not_found", f"no problem is called {show(name)}", value=name)
    return document_reply({"name": kind.name, "status": kind.status, "title": kind.title, "remedy": kind.remedy})
