"""
Internal: sends requests to a service, and retries them until they are answered or their time is over.

Requests run on an event loop in its own thread, for `Scheduler` and `AsyncScheduler` alike. Every write has an
Idempotency-Key, so that the service executes it only once, even if the answer was lost and the write is sent again.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import ssl
import uuid
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar
from urllib.parse import urlsplit

from tickwheel.errors import ClosedError, MissingExtraError
from tickwheel.futures import Future
from tickwheel.jobs.errors import StoreError
from tickwheel.loops import run_coroutine_threadsafe
from tickwheel.remote._errors import error_of
from tickwheel.remote._loop import start_loop
from tickwheel.threads import Thread, current_thread
from tickwheel.timers.locks import OUTER, new_lock

if TYPE_CHECKING:
    import httpx

__all__ = ["Transport"]

_T = TypeVar("_T")

_WAIT_S: Final = 0.05
_WAIT_MAX_S: Final = 2.0
_AGAIN: Final = frozenset({429, 502, 503, 504})
_LOST: Final = frozenset({0, 502, 504})
"""HTTP statuses after which the service may have executed the request: answers of a proxy, and 0 for no answer."""
_REMEDY: Final = "is this the right address?"
_AT_ONCE_MAX: Final = 100
"""Maximum number of concurrent requests, except long polls."""


class _Document(dict[str, Any]):
    """
    The document of an answer from the service at *where*. If a field is missing, the answer is not from a service.
    """

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        super().__init__(fields)
        self._where = where

    def __missing__(self, name: str) -> NoReturn:
        what = f"{self._where} answers without {name!r}"
        raise StoreError(what, "is this the right address, of a service as new as this client?")


class Transport:
    """
    A connection to one service. *timeout_s* limits one request, including its retries.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        self.url = _checked(url)
        self._token = _sendable(token)
        self._timeout_s = timeout_s
        self._lock = new_lock(OUTER)  # replaced in the child of a fork: it may have been held
        self._is_closed = False
        self._is_winding_up = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pid = os.getpid()
        self._turns = asyncio.Semaphore(_AT_ONCE_MAX)
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"<Transport {self.url}>"

    def submit(self, request: Coroutine[Any, Any, _T]) -> Future[_T]:
        """
        Run *request* on the transport's loop. Callable from any thread.

        If the transport is closed, a read raises a `ClosedError`, and a write raises a `StoreError`. The write may have
        taken effect.
        """
        with self._lock:
            if self._is_closed:
                request.close()
                raise ClosedError("scheduler")
            loop = self._loop
            if loop is None or self._pid != os.getpid():  # threads do not survive a fork
                try:
                    loop = self._start()
                except BaseException:  # no thread or no file available: the next request tries again
                    request.close()
                    raise
            return run_coroutine_threadsafe(request, loop)  # inside the lock, so before the end of a `close`

    def _start(self) -> asyncio.AbstractEventLoop:
        client = self._connected()
        loop, thread = start_loop("tickwheel-http")
        self._client, self._loop, self._thread, self._pid = client, loop, thread, os.getpid()
        self._turns = asyncio.Semaphore(_AT_ONCE_MAX)  # new after a fork: the parent's may be in use
        atexit.register(self.close)
        return loop

    @property
    def is_open(self) -> bool:
        return self._loop is not None and self._pid == os.getpid()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            loop, self._loop = self._loop, None
        atexit.unregister(self.close)
        if loop is not None and self._pid == os.getpid():
            run_coroutine_threadsafe(self._wind_up(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            if self._thread is not None and self._thread is not current_thread():
                self._thread.join()

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        patience_s: float = 0.0,
    ) -> tuple[int, Any]:
        """
        Return the status and the document of the answer to a request; a problem document is also an answer.

        *patience_s* is additional time for the service, if the request asks it to wait.

        Raises:
            StoreError: If there is no answer, or an unreadable one.
        """
        sent = {"idempotency-key": uuid.uuid4().hex} if method != "GET" else {}
        sent |= {"content-type": "application/json"} if body is not None else {}
        sent |= headers or {}
        try:
            async with nullcontext() if patience_s else self._turns:
                return await self._until_answered(method, path, patience_s, body=body, headers=sent, params=params)
        except asyncio.CancelledError:
            if not self._is_winding_up:  # the caller has cancelled it
                raise
            if method == "GET" or patience_s:
                raise ClosedError("scheduler") from None
            what = f"{self.url} did not answer before the scheduler was closed"
            raise StoreError(what, "see whether it was done there", is_unknown=True) from None

    async def _until_answered(self, method: str, path: str, patience_s: float, **request: Any) -> tuple[int, Any]:
        now = asyncio.get_running_loop().time
        deadline = now() + self._timeout_s + patience_s
        tries, was_lost, takes_s = 0, False, 0.0
        while True:
            begun = now()
            until = min(deadline, begun + self._timeout_s / 2 + patience_s)
            status, answer, wait_s = await self._try(method, path, until, **request)
            tries += 1
            if status > 0:
                takes_s = max(takes_s, now() - begun - patience_s)
            was_lost = was_lost or status in _LOST or answer.get("is_unknown") is True
            wait_s = max(wait_s, min(_WAIT_MAX_S, _WAIT_S * 2**tries) * random.uniform(0.5, 1))  # noqa: S311  no secret
            if status not in _AGAIN and status > 0:
                return status, answer
            if now() + wait_s + takes_s >= deadline:  # a cut-off answer makes a refusal an unknown outcome
                is_unknown = was_lost and method != "GET"
                if status > 0 and not is_unknown:
                    return status, answer
                said = answer["detail"] if status > 0 else answer
                what = f"{self.url} did not answer in {self._timeout_s:g} s, asked {tries} times ({said})"
                raise StoreError(what, "see whether it runs there", is_transient=True, is_unknown=is_unknown)
            await asyncio.sleep(wait_s)

    async def document(self, *arguments: Any, **named: Any) -> Any:
        status, answer = await self.ask(*arguments, **named)
        if status >= 400:  # noqa: PLR2004  the first status of errors
            raise error_of(answer, self.url)
        return answer

    async def _try(
        self,
        method: str,
        path: str,
        until: float,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        params: Mapping[str, Any] | None,
    ) -> tuple[int, Any, float]:
        """
        Send a request once. Return the status (0: no answer), the document or the failure, and the delay asked for.
        """
        import httpx  # noqa: PLC0415  an extra, loaded on first use

        assert self._client is not None
        try:
            async with asyncio.timeout_at(until):
                reply = await self._client.request(
                    method, self.url + path, content=body, headers=dict(headers), params=params
                )
        except TimeoutError:
            return 0, "no answer", 0.0
        except httpx.RequestError as error:
            if isinstance(_first_of(error), ssl.SSLCertVerificationError):
                what = f"{self.url} is not trusted ({str(error).lower()})"
                raise StoreError(what, "name the file of its certificate authority in SSL_CERT_FILE") from None
            return 0, str(error).lower() or type(error).__name__, 0.0
        if reply.has_redirect_location:  # the token must not be sent there
            what = f"{self.url} leads to {reply.headers['location']!r}"
            raise StoreError(what, "write that address, if it is right")
        after, document = reply.headers.get("retry-after", ""), None
        wait_s = float(after) if after.isdecimal() else 0.0
        with suppress(ValueError, RecursionError):  # it is not JSON, or malicious
            document = reply.json()
        if reply.is_error:
            if not (isinstance(document, dict) and isinstance(document.get("detail"), str)):
                detail = f"status {reply.status_code} without a problem"
                document = {"status": reply.status_code, "detail": detail, "remedy": _REMEDY}
            return reply.status_code, document, wait_s
        if reply.is_success and isinstance(document, dict):
            return reply.status_code, _Document(document, self.url), wait_s
        if reply.is_success and reply.headers.get("content-type", "").startswith("text/plain"):
            return reply.status_code, _Document({}, self.url), wait_s  # the answer of a health check
        what = f"{self.url} answers without a document"
        raise StoreError(what, _REMEDY)

    def _connected(self) -> httpx.AsyncClient:
        try:
            import httpx  # noqa: PLC0415  an extra, loaded on first use
        except ImportError:
            raise MissingExtraError("httpx", "client") from None
        # Clients are usually near the service, where compression costs both sides more than it saves.
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=_AT_ONCE_MAX)
        verify = httpx.create_ssl_context()  # honours SSL_CERT_FILE, which trust_env=False does not
        return httpx.AsyncClient(headers=headers, limits=limits, timeout=None, trust_env=False, verify=verify)  # noqa: S113  ours is above

    async def _wind_up(self) -> None:
        self._is_winding_up = True
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()


def _first_of(error: BaseException) -> BaseException:
    while (before := error.__cause__ or error.__context__) is not None:
        error = before
    return error


def _checked(url: str) -> str:
    before, at, after = url.rpartition("@")
    shown = f"{before.partition('://')[0]}://***@{after}" if at else url
    try:
        parts = urlsplit(url)
        has_user = parts.username is not None or parts.password is not None
        is_address = bool(parts.hostname and (parts.port is None or parts.port)) and not (parts.query or parts.fragment)
    except ValueError:  # an invalid port, or an unclosed bracket
        has_user = is_address = False
    if has_user:
        what, remedy = f"{shown!r} has a user in it", "pass token=, or set TICKWHEEL_TOKEN"
        raise StoreError(what, remedy)
    if not is_address or not url.isprintable() or " " in url:
        what, remedy = f"{shown!r} is not a service's address", "write http://host:port"
        raise StoreError(what, remedy)
    return url.rstrip("/")


def _sendable(token: str | None) -> str | None:
    if token is None or (token.isascii() and token.isprintable() and token == token.strip()):
        return token
    what = "the token has a line end, a space around it, or a character that is not ASCII"
    raise StoreError(what, "pass it as 'tickwheel token' printed it, from a file with .strip()")
